// A client of Freshet for browsers and Node 18 or later. freshet.d.mts has the types.
//
// What may be repeated is repeated by itself: reads, PUT and DELETE, and every event, which carries an id of its own. A track
// that cannot be delivered waits in `storage`, and goes out with the next one or when the browser is online again.

const kQueueKey = "freshet.queue";
const kQueueMax = 100;
const kQueueMs = 20 * 3600e3;  // the service knows an event's id for 24 hours

export class FreshetError extends Error {
  // status: 0 without a reply. code and member: of the problem document.
  constructor(message, { status = 0, code = "unreachable", member, retryAfterMs } = {}) {
    super(message);
    Object.assign(this, { name: "FreshetError", status, code, member, retryAfterMs });
  }
  // Whether the same request may succeed later.
  get temporary() {
    return this.status === 0 || this.status === 429 || this.status >= 502;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const segment = (id) => encodeURIComponent(String(id));

export const newEventId = () => hex(crypto.getRandomValues(new Uint8Array(16)));

// The value of Authorization for a key of the internal server (identity.internal_keys).
export async function sign({ kid, secret }, method, target, body, seconds = Math.floor(Date.now() / 1000)) {
  const bytes = (text) => new TextEncoder().encode(text);
  const digest = hex(await crypto.subtle.digest("SHA-256", bytes(body)));
  const key = await crypto.subtle.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const said = await crypto.subtle.sign("HMAC", key, bytes(`v1\n${method}\n${target}\n${seconds}\n${digest}`));
  return `Freshet-HMAC-SHA256 kid=${kid}, ts=${seconds}, sig=${hex(said)}`;
}

function memory() {
  const kept = new Map();
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => void kept.set(key, text) };
}

export class Freshet {
  constructor({ base = "", key, headers = {}, attempts = 4, timeoutMs = 4000, firstPauseMs = 250, storage, fetch } = {}) {
    this.base = base.replace(/\/$/, "");
    this.options = { key, headers, attempts, timeoutMs, firstPauseMs };
    this.fetch = fetch || ((...request) => globalThis.fetch(...request));
    this.storage = storage || memory();
    globalThis.addEventListener?.("online", () => void this.flush().catch(() => {}));
  }

  // --- Events ---------------------------------------------------------------------------------------------------------

  // {queued: true}: the service, or this client, counts it later.
  async track(report) {
    const body = { eventId: newEventId(), ...report };
    try {
      const counted = await this.request("POST", "/api/track", { body, repeatable: true });
      void this.flush().catch(() => {});
      return counted;
    } catch (error) {
      if (!error.temporary) throw error;
      this.#keep([...this.#waiting(), { at: Date.now(), body }]);
      return { ok: true, queued: true };
    }
  }

  // Sends what waits; returns how many still do.
  async flush() {
    if (this.flushing) return this.#waiting().length;
    this.flushing = true;
    try {
      for (let waiting; (waiting = this.#waiting()).length; ) {
        try {
          await this.request("POST", "/api/track", { body: waiting[0].body, repeatable: true });
        } catch (error) {
          if (error.temporary) throw error;  // what is refused is of no use later either
        }
        this.#keep(this.#waiting().slice(1));
      }
    } finally {
      this.flushing = false;
    }
    return 0;
  }

  view(report) {
    return this.request("POST", "/api/views", { body: { eventId: newEventId(), ...report }, repeatable: true });
  }
  look(userId, topicId, kind) {
    return this.request("POST", "/api/history", { body: { userId, topicId, kind, eventId: newEventId() }, repeatable: true });
  }
  dismiss(userId, topicId, reason) {
    return this.request("POST", "/api/feedback", { body: { userId, topicId, kind: "not_interested", reason }, repeatable: true });
  }
  undismiss(userId, topicId) {
    return this.request("DELETE", "/api/feedback", { query: { userId, topicId } });
  }

  // --- Lists ----------------------------------------------------------------------------------------------------------

  hot(query) {
    return this.request("GET", "/api/hot", { query });
  }
  recommendations(userId, query) {
    return this.request("GET", "/api/recommendations", { query: { userId, ...query } });
  }
  similar(id, query) {
    return this.request("GET", `/api/items/${segment(id)}/similar`, { query });
  }
  history(userId, query) {
    return this.request("GET", "/api/history", { query: { userId, ...query } });
  }
  clearHistory(userId, query) {
    return this.request("DELETE", "/api/history", { query: { userId, ...query } });
  }
  feed(userId, options) {
    return new Feed(this, userId, options);
  }
  timeline(channel, userId, options) {
    return new Timeline(this, channel, userId, options);
  }
  follows(userId) {
    return this.request("GET", "/api/follows", { query: { userId } });
  }

  // --- The internal server's ------------------------------------------------------------------------------------------

  stats(id) {
    return this.request("GET", `/api/articles/${segment(id)}/stats`);
  }
  getItem(id) {
    return this.request("GET", `/api/items/${segment(id)}`);
  }
  putItem(id, item) {
    return this.request("PUT", `/api/items/${segment(id)}`, { body: item });
  }
  deleteItem(id) {
    return this.request("DELETE", `/api/items/${segment(id)}`);
  }
  putItems(items) {
    return this.#lines("/api/items", items);
  }
  interact(events) {
    return this.#lines("/api/interactions", events.map((event) => ({ eventId: newEventId(), ...event })));
  }
  push(channel, items, customers) {
    return this.request("POST", `/api/waterfall/${segment(channel)}`, { body: { items, customers, eventId: newEventId() }, repeatable: true });
  }
  publish(channel, items, author) {
    return this.request("POST", `/api/waterfall/${segment(channel)}`, { body: { items, followersOf: author, eventId: newEventId() }, repeatable: true });
  }
  follow(userId, author) {
    return this.request("PUT", "/api/follows", { body: { userId, author } });
  }
  unfollow(userId, author) {
    return this.request("DELETE", "/api/follows", { query: { userId, author } });
  }

  // --- Requests ---------------------------------------------------------------------------------------------------------

  // `body`: an object, or a text of `type`. What is `repeatable` is sent again while that may help.
  async request(method, path, { query = {}, body, type = "application/json", repeatable = method !== "POST" } = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const target = path + (given.length ? "?" + new URLSearchParams(given) : "");
    const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
    const { attempts, firstPauseMs } = this.options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(method, target, text, type);
      } catch (error) {
        if (!error.temporary || !repeatable || attempt >= attempts) throw error;
        await pause(Math.max(error.retryAfterMs || 0, firstPauseMs * 2 ** (attempt - 1) * (0.5 + Math.random())));
      }
    }
  }

  async #once(method, target, text, type) {
    const { key, headers: more, timeoutMs } = this.options;
    const headers = { ...more };
    if (text) headers["Content-Type"] = type;
    if (key) headers.Authorization = await sign(key, method, target, text);
    let reply, answer;
    try {
      reply = await this.fetch(this.base + target, {
        method, headers, body: text || undefined, credentials: "include", keepalive: text.length < 60000,
        signal: AbortSignal.timeout(timeoutMs),
      });
      answer = /\bjson\b/.test(reply.headers.get("Content-Type") || "") ? await reply.json() : null;
    } catch (error) {
      throw new FreshetError(`the service cannot be reached: ${error.message}`);
    }
    if (reply.ok) return answer;
    const seconds = Number(reply.headers.get("Retry-After"));
    throw new FreshetError(answer?.msg || `the service answered ${reply.status}`, {
      status: reply.status, code: answer?.code || "error", member: answer?.member, retryAfterMs: seconds > 0 ? 1000 * seconds : undefined,
    });
  }

  #lines(path, objects) {
    const body = objects.map((each) => JSON.stringify(each)).join("\n");
    return this.request("POST", path, { body, type: "application/x-ndjson", repeatable: true });
  }

  #waiting() {
    try {
      return JSON.parse(this.storage.getItem(kQueueKey) || "[]").filter(({ at }) => at > Date.now() - kQueueMs);
    } catch {
      return [];
    }
  }
  #keep(waiting) {
    try {
      this.storage.setItem(kQueueKey, JSON.stringify(waiting.slice(-kQueueMax)));
    } catch {
      // A full or forbidden storage loses a report, never the page.
    }
  }
}

// A reader's feed. `page` is the place: keep it (in history.state, say) to go on after a reload.
class Feed {
  constructor(client, userId, { limit, query, page = null } = {}) {
    Object.assign(this, { client, userId, limit, query, page });
  }
  refresh() {
    return this.#ask("refresh");
  }
  more() {
    return this.#ask("load_more");
  }
  async peek() {
    return (await this.#ask("peek")).new;
  }
  async #ask(action) {
    const body = { action, userId: this.userId, limit: this.limit, query: this.query };
    if (this.page) body.page = this.page;
    else body.eventId = newEventId();
    const { data } = await this.client.request("POST", "/api/feed", { body, repeatable: true });
    if (data.page) this.page = data.page;
    return data;
  }
}

// A reader's timeline. `cursors` are the place: {drop, up}.
class Timeline {
  constructor(client, channel, userId, { limit, cursors = null } = {}) {
    Object.assign(this, { client, channel, userId, limit, cursors });
  }
  async first() {
    const page = await this.#ask("first", 0);
    if (!page.degraded) this.cursors = { drop: page.drop, up: page.up };
    return page;
  }
  // What is newer than all that was had.
  async newer() {
    if (!this.cursors) return this.first();
    const page = await this.#ask("down", this.cursors.drop);
    if (!page.degraded) this.cursors.drop = page.drop;
    return page;
  }
  // What is older than all that was had.
  async older() {
    if (!this.cursors) return this.first();
    const page = await this.#ask("up", this.cursors.up);
    if (!page.degraded) this.cursors.up = page.up;
    return page;
  }
  #ask(direction, score) {
    const query = { userId: this.userId, direction, score, limit: this.limit };
    return this.client.request("GET", `/api/waterfall/${segment(this.channel)}`, { query });
  }
}
