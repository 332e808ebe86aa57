// Reports a page view, then prints recommendations and the hottest article: node example.mjs [URL]
import { Freshet } from "./freshet.mjs";

const freshet = new Freshet({ base: process.argv[2] || "http://127.0.0.1:8080", preset: "page" });
const counted = await freshet.track({ articleId: "hello", userId: "ann", sessionId: "s1", dwellMs: 42000 });
console.log(`page views: ${counted.pv ?? "unknown"}`);
const { items } = await freshet.recommendations("ann", { limit: 3 });
for (const item of items) console.log(`${item.title}: ${item.reason.text}`);
const hot = await freshet.hot({ model: "engagement", limit: 1 });
for (const item of hot.items) console.log(`hottest: ${item.title ?? item.id}`);
