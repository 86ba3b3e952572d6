/** What happened, by whom, and the times, as a sentence in the reader's language. */

/** A name inside a sentence must not reorder the words around it (U+2068 and U+2069 isolate it). */
const isolated = (name) => `\u2068${name}\u2069`;

/** How a request was answered: from the resolution that the inbox and the frames carry. */
export function outcomeSentence(language, { resolution, properties }) {
  const { outcome, actorName, actorType } = resolution;
  const who = isolated(actorName || language.text("someone"));
  if (!outcome) return language.text("custom", { who });
  return sentence(language, outcome.eventType, actorType !== "RESTAURANT_USER", {
    who,
    timezone: properties.timezone,
    partySize: outcome.partySize,
    slotTime: outcome.slotTime,
    proposedTime: outcome.proposedTime,
    previousSlotTime: null,
    reason: outcome.reason,
  });
}

/** A decision that was undone by whoever had made it. */
export function undoneSentence(language, { resolution }) {
  return language.text("undone", { who: isolated(resolution.actorName || language.text("someone")) });
}

/** What an event is about: from the event's own fields. */
export function eventSentence(language, { eventType, properties }) {
  const who = isolated(properties.actor?.name ?? properties.customerName ?? language.text("someone"));
  return sentence(language, eventType, properties.actor?.userType !== "RESTAURANT_USER", { ...properties, who });
}

function sentence(language, eventType, isByGuest, { who, slotTime, proposedTime, previousSlotTime, timezone, partySize, reason }) {
  const at = (moment) => (moment ? language.dayAndTime(moment, timezone) : "");
  const fields = { who, reason: isolated(reason), when: at(slotTime), proposed: at(proposedTime), asked: at(previousSlotTime), guests: language.text("guests", { count: partySize }) };
  const accepted = !isByGuest ? "accepted" : previousSlotTime ? "acceptedInstead" : "acceptedByGuest";
  const name = {
    RESERVATION_REQUESTED: "requested",
    RESERVATION_ACCEPTED: accepted,
    RESERVATION_REJECTED: "rejected",
    RESERVATION_POSTPONED: "proposed",
    RESERVATION_CHANGED: "changed",
    RESERVATION_DECISION_UNDONE: "undone",
    RESERVATION_CANCELLED: isByGuest ? "cancelled" : "calledOff",
  }[eventType];
  return language.text(name ?? "custom", fields);
}
