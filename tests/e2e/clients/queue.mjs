// node queue.mjs STUB: tracks without a server, then flushes the queue to STUB.
import { Freshet } from "../../../scripts/clients/javascript/freshet.mjs";

const values = new Map();
const storage = { getItem: (key) => values.get(key) ?? null, setItem: (key, text) => values.set(key, text) };
const offline = new Freshet({ base: "http://127.0.0.1:1", attempts: 1, storage });
const replies = [await offline.track({ articleId: "a" }), await offline.track({ articleId: "b" })];
const online = new Freshet({ base: process.argv[2], firstPauseMs: 1, storage });  // another page, the same storage
const flushed = await online.flush();
console.log(JSON.stringify({ replies, flushed, stored: JSON.parse(values.get("freshet.queue")).length }));
