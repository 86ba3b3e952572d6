/** The error of a request as a sentence that a waiter understands. */

export function errorSentence(language, error) {
  const { status, problem } = error;
  if (problem?.handledBy) return language.text("faster", { who: problem.handledBy.actorName || language.text("someone") });
  if (status === undefined) return language.text("errorOffline");
  if (status >= 500) return language.text("errorUnavailable");
  if (status === 422 && problem?.errors?.some(({ field }) => field === "proposedTime")) return language.text("errorTime");
  return language.text({ 404: "errorGone", 409: "errorNotPossible", 429: "errorTooMany" }[status] ?? "errorOther");
}
