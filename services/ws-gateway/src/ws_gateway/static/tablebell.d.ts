/** The types of tablebell.js. The module's own comment describes the behaviour. */

export type Action = "CONFIRMED" | "REJECTED" | "POSTPONED" | "DISMISSED" | "CUSTOM";
export type State = "connecting" | "live" | "delayed" | "offline" | "signed-out";

/** What an action made of the reservation. Times are ISO 8601 with an offset. */
export interface Outcome {
  eventType: string;
  slotTime: string;
  proposedTime: string | null;
  partySize: number;
  reason: string | null;
}

export interface Resolution {
  action: Action;
  actorType: string;
  actorId: number;
  actorName: string;
  at: string;
  outcome: Outcome | null;
}

/** A notification as in GET /notifications. */
export interface Notification {
  id: number;
  eventNotificationId: number;
  eventType: string;
  reservationId: number;
  title: string;
  body: string;
  properties: Record<string, unknown>;
  shared: boolean;
  actions: Action[];
  hidden: boolean;
  isRead: boolean;
  readByUserId: number | null;
  resolution: Resolution | null;
  createdAt: string;
}

export interface Options {
  socketUrl: string;
  apiUrl: string;
  /** `refused`: the last token was refused. Resolve to null if the user is signed out. */
  token: (why: { refused: boolean }) => Promise<string | null>;
}

export class ApiError extends Error {
  readonly status: number;
  /** The body of the response (RFC 9457). */
  readonly problem: { detail?: string; title?: string; handledBy?: Resolution; errors?: { field: string; message: string }[] } | null;
}

export class Inbox extends EventTarget {
  constructor(options: Options);
  readonly items: readonly Notification[];
  readonly unread: number;
  readonly open: Notification[];
  readonly openCount: number;
  readonly hasMore: boolean;
  readonly loaded: boolean;
  readonly asOf: number | null;
  readonly canAct: boolean;
  readonly problem: Error | null;
  readonly state: State;
  readonly user: { userType: string; userId: number } | null;
  start(): void;
  stop(): void;
  retry(): void;
  restore(known: { items: Notification[]; open: Notification[]; openCount: number; at: number }): void;
  find(id: number): Notification | undefined;
  more(): Promise<boolean>;
  read(id: number): Promise<void>;
  readAll(): Promise<void>;
  act(id: number, action: { actionType: Action; proposedTime?: string }): Promise<{ undoSeconds: number | null }>;
  request(method: string, path: string, body?: unknown): Promise<unknown>;
}
