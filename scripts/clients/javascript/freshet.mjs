// Client for Freshet, for browsers and Node 18 or later. Types are in freshet.d.mts.
//
// Requests that can be repeated are retried automatically: reads, PUT, DELETE, and events, each of which has its own id. A
// track that cannot be delivered is queued in `storage` and sent after the next one, or when the browser is online again.

const kQueueKey = "freshet.queue";
const kQueueMax = 100;
const kQueueTtlMs = 20 * 3600e3;  // the service recognizes a repeated event id for 24 hours
const kMaxPauseMs = 30e3;         // if the service asks for a longer pause, the request fails instead

export class FreshetError extends Error {
  // status is 0 if there was no usable response. code and member come from the problem document.
  constructor(message, { status = 0, code = "unreachable", member, retryAfterMs } = {}) {
    super(message);
    Object.assign(this, { name: "FreshetError", status, code, member, retryAfterMs });
  }
  // True if the same request may succeed later.
  get temporary() {
    return this.status === 0 || this.status === 429 || this.status >= 502;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const segment = (id) => encodeURIComponent(String(id));

// The object or array of a JSON document; undefined if it is neither.
function parse(text) {
  try {
    const answer = JSON.parse(text);
    return typeof answer === "object" && answer ? answer : undefined;
  } catch {
    return undefined;
  }
}

export const newEventId = () => hex(crypto.getRandomValues(new Uint8Array(16)));

// Authorization header for the internal server, signed with one of identity.internal_keys.
export async function sign({ kid, secret }, method, target, body, seconds = Math.floor(Date.now() / 1000)) {
  const bytes = (text) => new TextEncoder().encode(text);
  const digest = hex(await crypto.subtle.digest("SHA-256", bytes(body)));
  const key = await crypto.subtle.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const signature = await crypto.subtle.sign("HMAC", key, bytes(`v1\n${method}\n${target}\n${seconds}\n${digest}`));
  return `Freshet-HMAC-SHA256 kid=${kid}, ts=${seconds}, sig=${hex(signature)}`;
}

function memoryStorage() {
  const values = new Map();
  return { getItem: (key) => values.get(key) ?? null, setItem: (key, text) => void values.set(key, text) };
}

export class Freshet {
  constructor({ base = "", key, headers = {}, attempts = 4, timeoutMs = 4000, firstPauseMs = 250, storage, fetch } = {}) {
    this.base = base.replace(/\/$/, "");
    this.options = { key, headers, attempts, timeoutMs, firstPauseMs };
    this.fetch = fetch || ((...request) => globalThis.fetch(...request));
    this.storage = storage || memoryStorage();
    globalThis.addEventListener?.("online", () => void this.flush().catch(() => {}));
  }

  // --- Events ---------------------------------------------------------------------------------------------------------

  // {queued: true}: not counted yet; the service or this client has queued it.
  async track(report) {
    const body = { eventId: newEventId(), ...report };
    try {
      const counted = await this.request("POST", "/api/track", { body, repeatable: true });
      void this.flush().catch(() => {});
      return counted;
    } catch (error) {
      if (!error.temporary) throw error;
      this.#saveQueue([...this.#queue(), { at: Date.now(), body }]);
      return { ok: true, queued: true };
    }
  }

  // Sends the queued tracks. Returns how many are still queued.
  async flush() {
    if (this.flushing) return this.#queue().length;
    this.flushing = true;
    try {
      for (let queue; (queue = this.#queue()).length; ) {
        const [{ body }] = queue;
        try {
          await this.request("POST", "/api/track", { body, repeatable: true });
        } catch (error) {
          if (error.temporary) throw error;  // otherwise it was rejected for good: drop it
        }
        this.#saveQueue(this.#queue().filter((each) => each.body.eventId !== body.eventId));  // other pages change it, too
      }
    } finally {
      this.flushing = false;
    }
    return 0;
  }

  view(report) {
    return this.request("POST", "/api/views", { body: { eventId: newEventId(), ...report }, repeatable: true });
  }
  look(userId, topicId, kind = "topic") {
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

  // --- Internal server --------------------------------------------------------------------------------------------------

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
    return this.#postLines("/api/items", items);
  }
  interact(events) {
    return this.#postLines("/api/interactions", events.map((event) => ({ eventId: newEventId(), ...event })));
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

  // `body` is an object sent as JSON, or a string of type `type`. A `repeatable` request is retried after temporary errors.
  async request(method, path, { query = {}, body, type = "application/json", repeatable = method !== "POST" } = {}) {
    const parameters = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const target = path + (parameters.length ? "?" + new URLSearchParams(parameters) : "");
    const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
    const { attempts, firstPauseMs } = this.options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#send(method, target, text, type);
      } catch (error) {
        if (!error.temporary || !repeatable || attempt >= attempts || error.retryAfterMs > kMaxPauseMs) throw error;
        await pause(Math.max(error.retryAfterMs || 0, firstPauseMs * 2 ** (attempt - 1) * (0.5 + Math.random())));
      }
    }
  }

  async #send(method, target, text, type) {
    const { key, headers: extraHeaders, timeoutMs } = this.options;
    const headers = { ...extraHeaders };
    if (text) headers["Content-Type"] = type;
    if (key) {
      const { pathname, search } = new URL(this.base + target);
      headers.Authorization = await sign(key, method, pathname + search, text);
    }
    let reply, answer;
    try {
      reply = await this.fetch(this.base + target, {
        method, headers, body: text || undefined, credentials: "include", keepalive: text.length < 60000,
        signal: AbortSignal.timeout(timeoutMs),
      });
      answer = parse(await reply.text());
    } catch (error) {
      throw new FreshetError(`the service is unreachable: ${error.message}`);
    }
    if (reply.ok) {
      if (!answer && reply.status !== 204) throw new FreshetError("the service is unreachable: the response is not JSON");
      return answer ?? null;
    }
    const seconds = reply.headers.get("Retry-After");
    throw new FreshetError(answer?.msg || `the service returned HTTP ${reply.status}`, {
      status: reply.status, code: answer?.code || "error", member: answer?.member,
      retryAfterMs: /^\d+$/.test(seconds) ? 1000 * seconds : undefined,
    });
  }

  #postLines(path, objects) {
    const body = objects.map((each) => JSON.stringify(each)).join("\n");
    return this.request("POST", path, { body, type: "application/x-ndjson", repeatable: true });
  }

  #queue() {
    try {
      return JSON.parse(this.storage.getItem(kQueueKey) || "[]").filter(({ at }) => at > Date.now() - kQueueTtlMs);
    } catch {
      return [];
    }
  }
  #saveQueue(queue) {
    try {
      this.storage.setItem(kQueueKey, JSON.stringify(queue.slice(-kQueueMax)));
    } catch {
      // If the storage is full or not allowed, the report is lost but the page goes on.
    }
  }
}

// A reader's feed. `page` is the cursor: keep it, for example in history.state, to continue after a reload.
class Feed {
  constructor(client, userId, { limit, query, page = null } = {}) {
    Object.assign(this, { client, userId, limit, query, page });
  }
  refresh() {
    return this.#request("refresh");
  }
  more() {
    return this.#request("load_more");
  }
  async peek() {
    return (await this.#request("peek")).new;
  }
  async #request(action) {
    const body = { action, userId: this.userId, limit: this.limit, query: this.query };
    if (this.page) body.page = this.page;
    else body.eventId = newEventId();
    const { data } = await this.client.request("POST", "/api/feed", { body, repeatable: true });
    if (data.page) this.page = data.page;
    return data;
  }
}

// A reader's timeline. `cursors` is {drop, up}: the highest and lowest scores received.
class Timeline {
  constructor(client, channel, userId, { limit, cursors = null } = {}) {
    Object.assign(this, { client, channel, userId, limit, cursors });
  }
  async first() {
    const page = await this.#request("first", 0);
    if (!page.degraded) this.cursors = { drop: page.drop, up: page.up };
    return page;
  }
  // Items newer than all received so far.
  async newer() {
    if (!this.cursors) return this.first();
    const page = await this.#request("down", this.cursors.drop);
    if (!page.degraded) this.cursors.drop = page.drop;
    return page;
  }
  // Items older than all received so far.
  async older() {
    if (!this.cursors) return this.first();
    const page = await this.#request("up", this.cursors.up);
    if (!page.degraded) this.cursors.up = page.up;
    return page;
  }
  #request(direction, score) {
    const query = { userId: this.userId, direction, score, limit: this.limit };
    return this.client.request("GET", `/api/waterfall/${segment(this.channel)}`, { query });
  }
}
