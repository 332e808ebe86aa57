// Client for Freshet, for browsers and Node 18 or later. freshet.d.mts has the types and says what the presets do.

const kQueueKey = "freshet.queue";
const kQueueMax = 100;
const kQueueTtlMs = 20 * 3600e3;  // the service recognizes a repeated event id for 24 hours
const kPresets = {
  page: { attempts: 1, timeoutMs: 300, cooldownMs: 1000 },
  background: { attempts: 4, timeoutMs: 4000, cooldownMs: 0 },
};
const kMaxPauseMs = 30e3;         // if the service asks for a longer pause, the request fails instead
const kMaxRemembered = 100;       // responses

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
const bytes = (text) => new TextEncoder().encode(text);
const isPresent = (value) => value !== undefined && value !== null && value !== "";
const present = (members) => Object.fromEntries(Object.entries(members).filter(([, value]) => isPresent(value)));

// `given`, whose members must have one of the names.
function known(names, given = {}) {
  const unknown = Object.keys(given).find((name) => !names.split(" ").includes(name));
  if (unknown) throw new TypeError(`unknown argument ${unknown}, not one of ${names}`);
  return given;
}

// `value`, unless it is a number that cannot be the id that was meant.
function exact(value) {
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new TypeError(`${value} is not exact: pass ids above 2^53 as strings`);
  return value;
}
const stringify = (object) => JSON.stringify(object, (_, value) => exact(value));

function segment(id) {
  if (!isPresent(id)) throw new TypeError("an id must not be empty");
  return encodeURIComponent(new TextDecoder().decode(bytes(exact(id)))).replace(/[!'()*]/g, (c) => `%${hex(bytes(c)).toUpperCase()}`);
}

// The object or array of a JSON document, an array as {items: array}; undefined if it is neither.
function parse(text) {
  try {
    const answer = JSON.parse(text);
    if (Array.isArray(answer)) return { items: answer };
    return typeof answer === "object" && answer ? answer : undefined;
  } catch {
    return undefined;
  }
}

// As `read`, for {items} of which each passes `isElement`.
const listOf = (isElement, read = parse) => (text) => {
  const answer = read(text);
  return Array.isArray(answer?.items) && answer.items.every(isElement) ? answer : undefined;
};
const isId = (value) => typeof value === "string" || typeof value === "number";
const isItem = (value) => isId(value?.id);
const parseIds = listOf(isId);
const parseItems = listOf(isItem);
const parseData = (text) => Object(parse(text)?.data);
const parsePage = listOf(isItem, parseData);

// Parses "ready", "writes:true" and, if something is missing, "missing:index,model", on a line each.
function parseHealth(text) {
  if (!text.startsWith("ready\n")) return undefined;
  return { ready: true, writes: text.includes("\nwrites:true\n"), missing: /^missing:(.+)$/m.exec(text)?.[1].split(",") ?? [] };
}

// Node 18 has no global `crypto`. Bundlers for browsers must not look for the module.
const nodeCrypto = "node:crypto";
const subtle = async () => (globalThis.crypto ?? (await import(/* webpackIgnore: true */ /* @vite-ignore */ nodeCrypto)).webcrypto).subtle;

async function hmac(secret, message) {
  const algorithms = await subtle();
  const key = await algorithms.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(await algorithms.sign("HMAC", key, bytes(message)));
}

// Math.random() suffices, because ids only distinguish events.
export const newEventId = () =>
  hex(globalThis.crypto?.getRandomValues(new Uint8Array(16)) ?? Uint8Array.from({ length: 16 }, () => 256 * Math.random()));

// Authorization header for the internal server, signed with one of identity.internal_keys.
export async function sign({ kid, secret }, method, target, body, seconds = Math.floor(Date.now() / 1000)) {
  const digest = hex(await (await subtle()).digest("SHA-256", bytes(body)));
  return `Freshet-HMAC-SHA256 kid=${kid}, ts=${seconds}, sig=${await hmac(secret, `v1\n${method}\n${target}\n${seconds}\n${digest}`)}`;
}

// A reader's token for identity.mode = "token", which expires at `expires` (unix seconds; default: in an hour). Make it on your
// server.
export async function token({ kid, secret }, userId, expires = Date.now() / 1000 + 3600) {
  const message = `v1.${kid}.${segment(userId)}.${Math.floor(expires)}`;
  return `${message}.${await hmac(secret, message)}`;
}

function memoryStorage() {
  const values = new Map();
  return { getItem: (key) => values.get(key) ?? null, setItem: (key, text) => void values.set(key, text) };
}

export class Freshet {
  #silentUntil = 0;
  #remembered = new Map();  // [ETag, text] by target

  constructor(given = {}) {
    known("base key headers preset attempts timeoutMs cooldownMs firstPauseMs storage fetch", given);
    const { base = "", storage, fetch, ...options } = given;
    const defaults = kPresets[options.preset ??= "background"];
    if (!defaults) throw new TypeError("preset must be page or background");
    if (!/^(https?:\/\/[^/]|\/|$)/i.test(base)) throw new TypeError(`base must be an address such as "http://127.0.0.1:8081", not "${base}"`);
    if (/^h/i.test(base)) new URL(base);  // throws if it is none
    this.base = base.replace(/\/$/, "");
    this.options = { ...defaults, headers: {}, firstPauseMs: 250, ...present(options) };
    this.fetch = fetch || ((...request) => globalThis.fetch(...request));
    this.storage = storage || memoryStorage();
    globalThis.addEventListener?.("online", () => void this.flush().catch(() => {}));
  }

  // --- Events ---------------------------------------------------------------------------------------------------------

  // {queued: true}: not counted yet; the service or this client has queued it.
  async track(report) {
    known("articleId userId sessionId fingerprint dwellMs publishedAt eventId", report);
    const body = { eventId: newEventId(), ...present(report), dwellMs: Math.round(report.dwellMs ?? 0) };
    try {
      const counted = await this.#tryTo("POST", "/api/track", { body, repeatable: true });
      void this.flush().catch(() => {});
      return counted;
    } catch (error) {
      if (!error.temporary) return this.#unavailable(error);
      this.#saveQueue([...this.#queue(), { at: Date.now(), body }]);
      return { ok: true, queued: true };
    }
  }

  // Sends the queued tracks. Returns how many are still queued. With preset "background", it throws if one cannot be delivered yet.
  async flush() {
    if (this.flushing) return this.#queue().length;
    this.flushing = true;
    try {
      for (let queue; (queue = this.#queue()).length; ) {
        const [{ body }] = queue;
        try {
          await this.#tryTo("POST", "/api/track", { body, repeatable: true });
        } catch (error) {
          if (error.temporary && this.options.preset === "page") return this.#queue().length;
          if (error.temporary) throw error;  // otherwise it was rejected for good: drop it
        }
        this.#saveQueue(this.#queue().filter((each) => each.body.eventId !== body.eventId));  // other pages change it, too
      }
    } finally {
      this.flushing = false;
    }
    return 0;
  }

  async view(report) {
    return this.#postEvent("/api/views", known("articleId fingerprint publishedAt eventId", report));
  }
  async look(userId, topicId, kind = "topic") {
    return this.#postEvent("/api/history", { userId, topicId, kind });
  }
  async dismiss(userId, topicId, reason) {
    return this.request("POST", "/api/feedback", { body: present({ userId, topicId, kind: "not_interested", reason }), repeatable: true });
  }
  async undismiss(userId, topicId) {
    return this.request("DELETE", "/api/feedback", { query: { userId, topicId } });
  }
  // Gives an anonymous visitor a cookie. For browsers.
  async visitor() {
    return this.request("POST", "/api/visitor");
  }

  // --- Lists: {items: [...], ...}, with `degraded` if they are incomplete ---------------------------------------------

  async hot(query) {
    return this.request("GET", "/api/hot", { query: known("model limit mode window tag at", query), parse: parseItems });
  }
  async recommendations(userId, query) {
    return this.request("GET", "/api/recommendations", { query: { userId, ...known("limit exclude", query) }, parse: parseItems });
  }
  async similar(itemId, query) {
    return this.request("GET", `/api/items/${segment(itemId)}/similar`, { query: known("userId limit", query), parse: parseItems });
  }
  async history(userId, query) {
    return this.request("GET", "/api/history", { query: { userId, ...known("kind", query) }, parse: parseIds });
  }
  async clearHistory(userId, query) {
    return this.request("DELETE", "/api/history", { query: { userId, ...known("kind", query) } });
  }
  async removeFromHistory(userId, topicId, query) {
    if (topicId == null || topicId === "") throw new TypeError("an id must not be empty");
    return this.request("DELETE", "/api/history", { query: { userId, topicId, ...known("kind", query) } });
  }
  feed(userId, options) {
    return new Feed(this, userId, known("limit query page", options));
  }
  timeline(channel, userId, options) {
    return new Timeline(this, channel, userId, known("limit cursors", options));
  }
  async follows(userId) {
    return this.request("GET", "/api/follows", { query: { userId }, parse: parseIds });
  }

  // --- Internal server --------------------------------------------------------------------------------------------------

  async stats(articleId) {
    return this.request("GET", `/api/articles/${segment(articleId)}/stats`);
  }
  // The statistics of up to 100 articles.
  async statsOf(articleIds) {
    const ids = articleIds.map((id) => String(exact(id)));
    return this.request("GET", "/api/stats", { query: ids.some((id) => id.includes(",")) ? { id: ids } : { ids: ids.join() } });
  }
  // The hot list under other settings, such as {model: "engagement", "hot.half_life": "6h"}.
  async preview(settings) {
    return this.request("GET", "/api/hot/preview", { query: settings });
  }
  async getItem(itemId) {
    return this.request("GET", `/api/items/${segment(itemId)}`);
  }
  async putItem(itemId, members) {
    return this.request("PUT", `/api/items/${segment(itemId)}`, { body: members });
  }
  async deleteItem(itemId) {
    return this.request("DELETE", `/api/items/${segment(itemId)}`);
  }
  async putItems(items) {
    return this.#postLines("/api/items", items);
  }
  async interact(events) {
    return this.#postLines("/api/interactions", events.map((event) => ({ eventId: newEventId(), ...event })));
  }
  async push(channel, items, customers) {
    return this.#postEvent(`/api/waterfall/${segment(channel)}`, { items, customers });
  }
  async publish(channel, items, author) {
    return this.#postEvent(`/api/waterfall/${segment(channel)}`, { items, followersOf: author });
  }
  async removeFromTimeline(channel, itemId, userId) {
    return this.request("DELETE", `/api/waterfall/${segment(channel)}/${segment(itemId)}`, { query: { userId } });
  }
  async follow(userId, author) {
    return this.request("PUT", "/api/follows", { body: { userId, author } });
  }
  async unfollow(userId, author) {
    return this.request("DELETE", "/api/follows", { query: { userId, author } });
  }

  // Moves a visitor's history to the account that they signed in to.
  async mergeHistory(visitorId, userId) {
    return this.request("POST", "/api/history/merge", { body: { from: visitorId, to: userId }, repeatable: true });
  }
  // Everything stored about a reader. `next` of its `database` is the `start` of the next part.
  async exportUser(userId, start = 0) {
    return this.request("GET", `/api/users/${segment(userId)}`, { query: { from: start } });
  }
  // Returns {job}; the reader is erased when job() says "done".
  async eraseUser(userId) {
    return this.request("DELETE", `/api/users/${segment(userId)}`);
  }
  async job(jobId) {
    return this.request("GET", `/api/jobs/${segment(jobId)}`);
  }
  // {key: kid, userId: reader}, as which the server has authenticated this client. null stands for neither.
  async whoami() {
    return this.request("GET", "/api/whoami");
  }
  // {ready, writes, missing: [dependency]} after one try; `error` says why it is not ready.
  async health() {
    try {
      return await this.#tryTo("GET", "/health/ready", { repeatable: false, parse: parseHealth });
    } catch (error) {
      return { ready: false, writes: false, missing: [], error };
    }
  }

  // --- Requests ---------------------------------------------------------------------------------------------------------

  // An array in `query` is a parameter for each value. A `repeatable` request is retried after temporary errors. `parse` returns
  // undefined for a text that is no result.
  async request(method, path, options) {
    try {
      return await this.#tryTo(method, path, known("query body type repeatable parse", options));
    } catch (error) {
      return this.#unavailable(error);
    }
  }

  #unavailable(error) {
    if (this.options.preset !== "page" || !(error instanceof FreshetError)) throw error;
    return { items: [], unavailable: true, error };
  }

  async #tryTo(method, path, { query = {}, body, type = "application/json", repeatable = method !== "POST", parse: read = parse } = {}) {
    const parameters = Object.entries(present(query)).flatMap(([name, value]) => [value].flat().map((each) => [name, exact(each)]));
    const target = path + (parameters.length ? "?" + new URLSearchParams(parameters) : "");
    const text = body === undefined ? "" : typeof body === "string" ? body : stringify(body);
    const { attempts, firstPauseMs } = this.options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#send(method, target, text, type, read);
      } catch (error) {
        if (!error.temporary || !repeatable || attempt >= attempts || error.retryAfterMs > kMaxPauseMs) throw error;
        await pause(Math.max(error.retryAfterMs || 0, firstPauseMs * 2 ** (attempt - 1) * (0.5 + Math.random())));
      }
    }
  }

  async #send(method, target, text, type, read) {
    if (performance.now() < this.#silentUntil) throw new FreshetError("the service is unreachable: there was no response a moment ago");
    const { key, headers: extraHeaders, timeoutMs, cooldownMs } = this.options;
    // Node's own agent counts as a crawler.
    const headers = { ...(globalThis.process?.versions?.node && { "User-Agent": "freshet-client" }), ...extraHeaders };
    if (text) headers["Content-Type"] = type;
    if (key) {
      const { pathname, search } = new URL(this.base + target);
      headers.Authorization = await sign(key, method, pathname + search, text);
    }
    const remembered = method === "GET" && this.#remembered.get(target);
    if (remembered) headers["If-None-Match"] = remembered.etag;
    let reply, received;
    try {
      reply = await this.fetch(this.base + target, {
        method, headers, body: text || undefined, credentials: "include", keepalive: text.length < 60000,
        signal: AbortSignal.timeout(timeoutMs),
      });
      received = await reply.text();
    } catch (error) {
      this.#silentUntil = performance.now() + cooldownMs;
      throw new FreshetError(`the service is unreachable: ${error.message}`);
    }
    if (remembered && reply.status === 304) return read(remembered.text);
    if (reply.ok) {
      const answer = read(received);
      if (!answer && (reply.status !== 204 || read !== parse)) throw new FreshetError("the service is unreachable: the response cannot be read");
      if (method === "GET") this.#remember(target, reply.headers, received);
      if (answer && reply.headers.get("Freshet-Degraded")) answer.degraded = true;
      return answer ?? {};
    }
    const problem = parse(received);
    const seconds = reply.headers.get("Retry-After");
    throw new FreshetError(problem?.msg || `the service returned HTTP ${reply.status}`, {
      status: reply.status, code: problem?.code || "error", member: problem?.member,
      retryAfterMs: /^\d+$/.test(seconds) ? 1000 * seconds : undefined,
    });
  }

  // Browsers have a cache of their own.
  #remember(target, headers, text) {
    const etag = headers.get("ETag");
    if (!globalThis.process?.versions?.node || !etag || /no-store/.test(headers.get("Cache-Control"))) return;
    if (this.#remembered.size >= kMaxRemembered) this.#remembered.clear();
    this.#remembered.set(target, { etag, text });
  }

  #postEvent(path, body) {
    return this.request("POST", path, { body: { eventId: newEventId(), ...present(body) }, repeatable: true });
  }

  #postLines(path, objects) {
    const body = objects.map(stringify).join("\n");
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

// Makes one request after the other, because each needs what the one before returned.
class Sequence {
  #last = Promise.resolve();
  inTurn(step) {
    const turn = this.#last.then(step);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

// A reader's feed. `page` is the cursor: keep it, for example in history.state, to continue after a reload.
class Feed extends Sequence {
  constructor(client, userId, { limit, query, page = null } = {}) {
    super();
    Object.assign(this, { client, userId, limit, query, page });
  }
  refresh() {
    return this.#request("refresh");
  }
  more() {
    return this.#request("load_more");
  }
  async peek() {
    return (await this.#request("peek")).new ?? 0;
  }
  #request(action) {
    return this.inTurn(async () => {
      const body = present({ action, userId: this.userId, limit: this.limit, query: this.query, page: this.page });
      if (!body.page) body.eventId = newEventId();
      const data = await this.client.request("POST", "/api/feed", { body, repeatable: true, parse: action === "peek" ? parseData : parsePage });
      if (data.page) this.page = data.page;
      return data;
    });
  }
}

// A reader's timeline. `cursors` is {drop, up}: the highest and lowest scores received.
class Timeline extends Sequence {
  constructor(client, channel, userId, { limit, cursors = null } = {}) {
    super();
    Object.assign(this, { client, channel, userId, limit, cursors });
  }
  first() {
    return this.#request("first");
  }
  // Items newer than all received so far.
  newer() {
    return this.#request("down");
  }
  // Items older than all received so far.
  older() {
    return this.#request("up");
  }
  #request(wanted) {
    return this.inTurn(async () => {
      const direction = this.cursors ? wanted : "first";
      const score = { first: 0, down: this.cursors?.drop, up: this.cursors?.up }[direction];
      const query = { userId: this.userId, direction, score, limit: this.limit };
      const page = await this.client.request("GET", `/api/waterfall/${segment(this.channel)}`, { query, parse: parseItems });
      if (!page.degraded && !page.unavailable) {
        if (direction !== "up") this.cursors = { ...this.cursors, drop: page.drop };
        if (direction !== "down") this.cursors.up = page.up;
      }
      return page;
    });
  }
}
