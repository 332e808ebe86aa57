// node queue.mjs STUB: tracks while nobody answers, and what becomes of them.
import { Freshet } from "../../../scripts/clients/javascript/freshet.mjs";

const kept = new Map();
const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => kept.set(key, text) };
const away = new Freshet({ base: "http://127.0.0.1:1", attempts: 1, storage });
const said = [await away.track({ articleId: "a" }), await away.track({ articleId: "b" })];
const back = new Freshet({ base: process.argv[2], firstPauseMs: 1, storage });  // another page, the same storage
const left = await back.flush();
console.log(JSON.stringify({ said, left, waiting: JSON.parse(kept.get("freshet.queue")).length }));
