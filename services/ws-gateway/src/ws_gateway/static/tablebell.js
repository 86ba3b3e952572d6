/**
 * The browser client of Tablebell: a user's inbox with live updates. One module, no dependencies.
 *
 *   import { Inbox } from "https://gateway.example/tablebell.js";
 *
 *   const inbox = new Inbox({
 *     socketUrl: "wss://gateway.example/ws",
 *     apiUrl: "https://api.example",
 *     token: async ({ refused }) => await freshToken(refused),   // null: signed out
 *   });
 *   inbox.addEventListener("change", () => render(inbox.items, inbox.unread));
 *   inbox.addEventListener("state", () => showState(inbox.state));
 *   inbox.start();
 *
 * items   the notifications as in GET /notifications, newest first, without duplicates
 * unread  the number of unread notifications in the whole inbox, loaded or not
 * open    the notifications that wait for an answer, newest first, however old they are
 * openCount  their number; more than open.length only if there are more than 1,000
 * loaded  whether the inbox has been read at least once
 * problem null, or the error of the last reading of the inbox; the reading is repeated until it succeeds
 * asOf    null, or since when nothing was read: the inbox shows what `restore` was given
 * canAct  whether the inbox was read and is connected
 * state   "connecting" | "live" | "delayed" (connected, but the gateway receives no frames) | "offline"
 *         | "signed-out"
 *
 * more()            load the next older page; resolves to true if there are more
 * read(id)          mark one as read          readAll()   mark all as read
 * find(id)          one notification, or undefined
 * retry()           read the inbox now, instead of at the end of the pause after an error
 * request(method, path, body?)   call the API with the user's token; rejects with an ApiError
 * act(id, action)   {actionType, proposedTime?}; resolves to {undoSeconds}: how long a decision can be undone, or null; DISMISSED hides it for this user alone; rejects with an ApiError. If a colleague was faster, its `status` is
 *                   409, `problem.handledBy` names them, and the inbox already shows it
 * restore({items, open, openCount, at})   show what an earlier visit knew, until the inbox is read; `at` becomes asOf
 * stop()            close the connection
 *
 * Events: "change" (of anything above but the state), "state", and "reservation" for staff (guests arrived or did not come).
 *
 * Guarantee: after every interruption (sleep, no network, a gateway restart, a new token), and every 5 minutes, the inbox
 * is read again, and the frames that arrived meanwhile are merged into it. Merging is independent of order and of
 * duplicates: a notification that is read, hidden or handled never becomes unread, visible or open again.
 */

const PAGE = 50;
const MOST_PAGES = 20; // per read of the inbox
const PING_EVERY = 25_000;
const PONG_WITHIN = 10_000;
const WAKE_PONG_WITHIN = 3_000;
const READY_WITHIN = 10_000;
const CLOCK_EVERY = 5_000;
const ASLEEP_AFTER = 15_000;
const AUDIT_EVERY = 300_000;
const LONGEST_PAUSE = 10_000;
const TOO_MANY_PAUSE = 30_000;
const SPREAD = 1_500;
const LONGEST_TIMER = 2_000_000_000;
const EARLY_FRAMES = 500;

const CLOSE = { badToken: 4401, tooMany: 4429 };

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem?.detail || problem?.title || `the API answered ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
  }
}

const isOpen = (item) => item.actions.length > 0 && !item.hidden;
const hide = (item) => ({ ...item, hidden: true, actions: item.actions.filter((action) => action !== "DISMISSED") });

/** A WebSocket that reconnects. It calls its owner: onReady(first), onFrame(frame), onState(state). */
class LiveSocket {
  #url; #token; #owner;
  #socket = null;
  #stopped = true;
  #failures = 0;
  #refused = false;
  #lastToken = null;
  #timers = new Map();
  #lastTick = 0;
  #listeners = new AbortController();

  constructor(url, token, owner) {
    this.#url = url;
    this.#token = token;
    this.#owner = owner;
  }

  start() {
    this.#stopped = false;
    this.#listeners = new AbortController();
    const options = { signal: this.#listeners.signal };
    addEventListener("online", () => this.wake(), options);
    addEventListener("offline", () => this.#probe(WAKE_PONG_WITHIN), options);
    addEventListener("pageshow", (event) => event.persisted && this.wake(), options);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.wake(), options);
    this.#lastTick = Date.now();
    this.#tick();
    this.#connect();
  }

  stop(state = "offline") {
    this.#stopped = true;
    this.#listeners.abort();
    this.#clearTimers();
    this.#drop(1000);
    this.#owner.onState(state);
  }

  /** Check the connection: the page may have slept or lost the network. */
  wake() {
    if (this.#stopped) return;
    if (this.#socket?.isReady) {
      this.#probe(WAKE_PONG_WITHIN);
      this.#owner.onWake();
    } else if (!this.#socket) {
      this.#failures = 0;
      this.#connect();
    }
  }

  // A timer that fires very late means that the machine slept. The connection may be dead.
  #tick() {
    const now = Date.now();
    if (now - this.#lastTick > ASLEEP_AFTER) this.wake();
    this.#lastTick = now;
    this.#after("tick", CLOCK_EVERY, () => this.#tick());
  }

  async #connect() {
    if (this.#stopped || this.#socket) return;
    this.#clear("retry");
    this.#owner.onState("connecting");
    const attempt = (this.#socket = { isReady: false });
    this.#after("ready", READY_WITHIN, () => this.#drop(4000, { retry: true }));
    let token;
    try {
      token = await this.#token({ refused: this.#refused });
    } catch {
      if (this.#socket === attempt) this.#lost(0);
      return;
    }
    if (this.#socket !== attempt) return;
    // The same token would be refused again.
    if (!token || (this.#refused && token === this.#lastToken)) return this.stop("signed-out");
    this.#lastToken = token;
    const socket = new WebSocket(this.#url);
    socket.isReady = false;
    this.#socket = socket;
    socket.onopen = () => this.#send({ type: "auth", token });
    socket.onmessage = (event) => socket === this.#socket && this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.#socket && this.#lost(event.code);
  }

  #receive(frame) {
    this.#clear("pong");
    if (frame.type === "pong") return;
    if (frame.type !== "ready") return this.#owner.onFrame(frame);
    const first = !this.#socket.isReady;
    this.#socket.isReady = true;
    this.#refused = false;
    this.#failures = 0;
    this.#clear("ready");
    this.#after("ping", PING_EVERY, () => this.#ping());
    const left = new Date(frame.expiresAt) - Date.now();
    this.#after("renew", Math.max(1_000, left - Math.min(60_000, left / 5)), () => this.#renew());
    this.#owner.onReady(first, frame);
  }

  async #renew() {
    const socket = this.#socket;
    let token;
    try {
      token = await this.#token({ refused: false });
    } catch {
      this.#after("renew", 5_000, () => this.#renew());
      return;
    }
    if (socket !== this.#socket) return;
    if (!token) return this.stop("signed-out");
    if (token === this.#lastToken) return this.#after("renew", 5_000, () => this.#renew());
    this.#lastToken = token;
    this.#send({ type: "auth", token });
  }

  #ping() {
    this.#probe(PONG_WITHIN);
    this.#after("ping", PING_EVERY, () => this.#ping());
  }

  #probe(within) {
    if (!this.#socket?.isReady) return;
    this.#send({ type: "ping" });
    this.#after("pong", within, () => this.#drop(4000, { retry: true }));
  }

  #send(frame) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame));
  }

  /** Drop a socket without waiting for its close event: on a dead network that takes minutes. */
  #drop(code, { retry = false } = {}) {
    const socket = this.#socket;
    if (!socket) return;
    this.#socket = null;
    if (socket.close) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close(code);
    }
    if (retry) this.#lost(0);
  }

  #lost(code) {
    this.#socket = null;
    for (const name of ["ready", "ping", "pong", "renew"]) this.#clear(name);
    if (this.#stopped) return;
    this.#refused = code === CLOSE.badToken;
    this.#owner.onState("offline");
    const pause = code === CLOSE.tooMany ? TOO_MANY_PAUSE : Math.min(LONGEST_PAUSE, 500 * 2 ** this.#failures);
    this.#failures += 1;
    this.#after("retry", pause * (0.5 + Math.random() / 2), () => this.#connect());
  }

  #after(name, milliseconds, action) {
    this.#clear(name);
    this.#timers.set(name, setTimeout(action, Math.min(milliseconds, LONGEST_TIMER)));
  }

  #clear(name) {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }

  #clearTimers() {
    for (const name of [...this.#timers.keys()]) this.#clear(name);
  }
}

export class Inbox extends EventTarget {
  #apiUrl; #token; #live;
  #items = new Map();
  #sorted = [];
  #cursor = null;
  #floor = 0; // the list is without gaps down to this id; open notifications may be older
  #beyond = 0; // unread notifications that are not loaded
  #openBeyond = 0; // open notifications that are not loaded
  #moreOpen = false;
  #skipPause = null;
  #confirmed = 0; // newest id of the last full read: the list has no gap up to here
  #early = new Map(); // eventNotificationId → changes that arrived before the notification
  #during = null; // frames received while the inbox is being read
  #catching = null;
  #again = false;
  #changes = 0;
  #counting = false;
  #timers = new Set();
  #audit = null;
  #tabs = null;
  #generation = 0;

  state = "connecting";
  user = null;
  loaded = false;
  problem = null;
  asOf = null;

  constructor({ socketUrl, apiUrl, token }) {
    super();
    this.#apiUrl = apiUrl.replace(/\/$/, "");
    this.#token = token;
    this.#live = new LiveSocket(socketUrl, token, {
      onReady: (first, frame) => this.#ready(first, frame),
      onFrame: (frame) => this.#frame(frame),
      onState: (state) => this.#setState(state),
      onWake: () => this.#catchUp(),
    });
  }

  get items() {
    return this.#sorted;
  }

  /** A notification by its id, also if it is open and older than `items`. */
  find(id) {
    return this.#items.get(id);
  }

  get unread() {
    let count = this.#beyond;
    for (const item of this.#items.values()) if (!item.isRead) count += 1;
    return count;
  }

  get open() {
    return [...this.#items.values()].filter(isOpen).sort((one, other) => other.id - one.id);
  }

  get openCount() {
    return this.open.length + this.#openBeyond;
  }

  get hasMore() {
    return this.#cursor !== null;
  }

  get canAct() {
    return this.loaded && this.#isConnected;
  }

  get #isConnected() {
    return this.state === "live" || this.state === "delayed";
  }

  start() {
    // A lost frame is not noticed otherwise: the badge also counts notifications that are not loaded.
    this.#audit = setInterval(() => this.#isConnected && this.#catchUp(), AUDIT_EVERY);
    this.#live.start();
  }

  stop() {
    this.#generation += 1;
    this.#live.stop();
    this.#tabs?.close();
    this.#tabs = null;
    clearInterval(this.#audit);
    for (const timer of this.#timers) clearTimeout(timer);
  }

  restore({ items, open, openCount, at }) {
    if (this.loaded) return;
    for (const item of [...items, ...open]) this.#merge(item);
    this.#floor = items.at(-1)?.id ?? 0;
    this.#openBeyond = Math.max(0, openCount - this.open.length);
    this.asOf = at;
    this.#changed();
  }

  async more() {
    await this.#catching;
    if (this.#cursor === null) return false;
    const page = await this.#page(this.#cursor);
    this.#cursor = page.nextCursor ?? null;
    this.#floor = this.#cursor === null ? 0 : page.items.at(-1).id;
    for (const item of page.items) this.#merge(item);
    await this.#recount();
    this.#changed();
    return this.hasMore;
  }

  retry() {
    this.#skipPause?.();
    this.#live.wake();
    if (this.#isConnected) this.#catchUp();
  }

  async read(id) {
    const item = this.#items.get(id);
    if (!item || item.isRead) return;
    this.#merge(await this.request("POST", `/notifications/${id}/read`));
    this.#tell({ type: "read", notificationIds: [id], eventNotificationId: item.shared ? item.eventNotificationId : null });
  }

  async readAll() {
    const newest = this.#sorted[0]?.id;
    await this.request("POST", "/notifications/read-all");
    if (newest !== undefined) this.#tell({ type: "read", upToId: newest });
  }

  async act(id, action) {
    const item = this.#items.get(id);
    try {
      const view = await this.request("POST", `/notifications/${id}/actions`, action);
      this.#merge(view);
      if (view.hidden) this.#tell({ type: "dismissed", notificationId: view.id });
      if (view.resolution) this.#tell({ type: "resolved", eventNotificationId: view.eventNotificationId, ...view.resolution });
      this.#changed();
      return { undoSeconds: view.undoSeconds ?? null };
    } catch (error) {
      const by = error.problem?.handledBy;
      if (error.status === 409 && by && item) {
        this.#tell({ type: "resolved", eventNotificationId: item.eventNotificationId, ...by });
      }
      throw error;
    }
  }

  // Received frames

  #ready(first, { userType, userId }) {
    this.user = { userType, userId };
    this.#setState("live");
    if (!this.#tabs && "BroadcastChannel" in globalThis) {
      this.#tabs = new BroadcastChannel(`tablebell:${userType}:${userId}`);
      this.#tabs.onmessage = (event) => this.#frame(event.data);
    }
    if (first) this.#catchUp();
  }

  #frame(frame) {
    if (frame.type === "status") {
      this.#setState(frame.live ? "live" : "delayed");
      // All clients receive this at once. Spread their requests.
      if (frame.live) this.#later(Math.random() * SPREAD, () => this.#catchUp());
      return;
    }
    if (frame.type === "reservation") return void this.dispatchEvent(new Event("reservation"));
    this.#during?.push(frame);
    if (this.#apply(frame)) this.#changed();
  }

  /** Apply this tab's change here and in its sibling tabs, as the frame that the gateway will send. */
  #tell(frame) {
    this.#tabs?.postMessage(frame);
    this.#frame(frame);
  }

  #apply(frame) {
    if (frame.type === "notification") {
      const { type, ...item } = frame;
      if (item.id < this.#floor && !isOpen(item)) return this.#recount(), false;
      this.#merge(item);
      return true;
    }
    if (frame.type === "resolved") {
      const { type, eventNotificationId, ...resolution } = frame;
      return this.#say(eventNotificationId, { resolution, actions: [] });
    }
    if (frame.type === "dismissed") {
      const item = this.#items.get(frame.notificationId);
      if (item) this.#items.set(item.id, hide(item));
      return item !== undefined;
    }
    if (frame.type === "read") return this.#markRead(frame);
    return false;
  }

  /** Change all copies of a shared notification. Keep the change for a copy that has not arrived yet. */
  #say(eventNotificationId, saying) {
    this.#early.set(eventNotificationId, { ...this.#early.get(eventNotificationId), ...saying });
    if (this.#early.size > EARLY_FRAMES) this.#early.delete(this.#early.keys().next().value);
    for (const item of this.#items.values()) {
      if (item.eventNotificationId === eventNotificationId) this.#items.set(item.id, { ...item, ...saying });
    }
    return true;
  }

  #markRead({ eventNotificationId, notificationIds, upToId, readByUserId }) {
    const isRead = { isRead: true, ...(readByUserId === undefined ? {} : { readByUserId }) };
    let unknown = false;
    if (eventNotificationId != null && notificationIds == null) {
      this.#say(eventNotificationId, isRead);
      unknown = ![...this.#items.values()].some((item) => item.eventNotificationId === eventNotificationId);
    }
    for (const id of notificationIds ?? []) {
      const item = this.#items.get(id);
      if (item) this.#items.set(id, { ...item, isRead: true });
      else unknown = true;
    }
    if (upToId != null) {
      for (const item of this.#items.values()) if (item.id <= upToId) this.#items.set(item.id, { ...item, isRead: true });
      unknown = true;
    }
    if (unknown && this.hasMore) this.#recount();
    return true;
  }

  #merge(item) {
    const known = this.#items.get(item.id);
    const merged = { ...known, ...item, ...this.#early.get(item.eventNotificationId) };
    merged.isRead ||= known?.isRead ?? false;
    merged.readByUserId ??= known?.readByUserId ?? null;
    merged.resolution ??= known?.resolution ?? null;
    if (merged.resolution) merged.actions = [];
    this.#items.set(item.id, known?.hidden ? hide(merged) : merged);
  }

  // Catching up

  #catchUp() {
    if (this.#catching) {
      this.#again = true;
      return;
    }
    const generation = this.#generation;
    this.#catching = (async () => {
      let failures = 0;
      do {
        this.#again = false;
        try {
          await this.#readInbox();
          failures = 0;
        } catch (error) {
          this.#setProblem(error);
          if (error.status === 401 || generation !== this.#generation || this.state === "signed-out") break;
          const pause = Math.min(LONGEST_PAUSE, 500 * 2 ** failures++) * (0.5 + Math.random() / 2);
          await new Promise((resolve) => {
            this.#skipPause = resolve;
            this.#later(pause, resolve);
          });
          this.#again = this.#isConnected;
        }
      } while (this.#again && generation === this.#generation);
    })().finally(() => (this.#catching = null));
  }

  /**
   * Read the newest pages of the inbox: as many as were loaded, up to MOST_PAGES. Frames that arrive meanwhile are merged
   * into the result. Older loaded items stay if this read reached the ids that the previous read had confirmed.
   * Otherwise there may be a gap: the list ends where this read ended, and `more` continues from there.
   */
  async #readInbox() {
    this.#during = [];
    try {
      const oldest = this.loaded ? this.#sorted.at(-1)?.id ?? 0 : Infinity;
      const everything = this.loaded && !this.hasMore;
      const isCovered = () => cursor === null || (!everything && fresh.at(-1).id <= oldest);
      const fresh = [];
      let cursor = null;
      let pages = 0;
      do {
        const page = await this.#page(cursor);
        fresh.push(...page.items);
        cursor = page.nextCursor ?? null;
        pages += 1;
      } while (!isCovered() && pages < MOST_PAGES);
      const open = await this.#readOpen();
      const known = this.#items;
      this.#items = new Map();
      // A notification that is read or handled here stays so: the response may be older.
      for (const item of [...fresh, ...open]) {
        if (known.has(item.id)) this.#items.set(item.id, known.get(item.id));
        this.#merge(item);
      }
      if (!isCovered() && fresh.at(-1).id <= this.#confirmed) {
        const isStillOpen = new Set(open.map((item) => item.id));
        for (const item of known.values()) {
          if (item.id >= fresh.at(-1).id || item.id < this.#floor || isStillOpen.has(item.id)) continue;
          this.#items.set(item.id, { ...item, actions: [] });
        }
        cursor = this.#cursor;
      } else {
        this.#floor = cursor === null ? 0 : fresh.at(-1).id;
      }
      this.#cursor = cursor;
      this.#confirmed = fresh[0]?.id ?? 0;
      this.loaded = true;
      this.asOf = null;
      this.problem = null;
      this.#sort();
      for (const frame of this.#during) this.#apply(frame);
    } finally {
      this.#during = null;
    }
    await this.#recount();
    this.#changed();
  }

  async #readOpen() {
    const open = [];
    let cursor = null;
    let pages = 0;
    do {
      const page = await this.#page(cursor, "&open=true");
      open.push(...page.items);
      cursor = page.nextCursor ?? null;
      pages += 1;
    } while (cursor !== null && pages < MOST_PAGES);
    this.#moreOpen = cursor !== null;
    return open;
  }

  /** The badge counts the whole inbox: the API counts the part that is not loaded, the client counts the loaded part. */
  async #recount() {
    if (this.#counting || !this.loaded) return;
    this.#counting = true;
    try {
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const changes = this.#changes;
        const { unread, open } = await this.request("GET", "/notifications/unread-count");
        if (changes !== this.#changes) continue; // a change arrived during the request
        const here = this.unread - this.#beyond;
        this.#beyond = this.hasMore ? Math.max(0, unread - here) : 0;
        this.#openBeyond = this.#moreOpen ? Math.max(0, open - this.open.length) : 0;
        this.#changed();
        return;
      }
      this.#later(1_000, () => this.#recount());
    } catch {
      this.#later(LONGEST_PAUSE, () => this.#recount());
    } finally {
      this.#counting = false;
    }
  }

  #page(cursor, selection = "") {
    const from = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
    return this.request("GET", `/notifications?limit=${PAGE}${selection}${from}`);
  }

  async request(method, path, body) {
    for (let refused = false; ; refused = true) {
      const token = await this.#token({ refused });
      const headers = { Authorization: `Bearer ${token}` };
      if (body !== undefined) headers["Content-Type"] = "application/json";
      const response = await fetch(this.#apiUrl + path, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
      const content = await response.json().catch(() => null);
      if (response.ok) return content;
      if (response.status !== 401 || refused) throw new ApiError(response.status, content);
    }
  }

  #later(milliseconds, action) {
    const timer = setTimeout(() => (this.#timers.delete(timer), action()), milliseconds);
    this.#timers.add(timer);
  }

  #sort() {
    const listed = [...this.#items.values()].filter((item) => item.id >= this.#floor);
    this.#sorted = listed.sort((one, other) => other.id - one.id);
  }

  #changed() {
    this.#changes += 1;
    this.#sort();
    this.dispatchEvent(new Event("change"));
  }

  #setProblem(error) {
    this.problem = error;
    this.dispatchEvent(new Event("change"));
  }

  #setState(state) {
    if (state === this.state) return;
    this.state = state;
    if (state === "offline" && !this.loaded) this.#setProblem(new Error("no connection"));
    this.dispatchEvent(new Event("state"));
  }
}
