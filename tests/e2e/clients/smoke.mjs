// node smoke.mjs PUBLIC INTERNAL KID SECRET NAME: prints the client's results as JSON, the same in every language.
import { Freshet } from "../../../scripts/clients/javascript/freshet.mjs";

const [base, internal, kid, secret, name] = process.argv.slice(2);
const site = new Freshet({ base });
const backend = new Freshet({ base: internal, key: { kid, secret } });
const ids = (page) => page.items.map((item) => item.id);
const items = [1, 2, 3, 4].map((i) => `${name}-${i}`);
const out = {};

const now = Math.floor(Date.now() / 1000);
out.put = await backend.putItem(items[0], { title: "Über ééé", tags: ["news"], published_at: now - 60 });
out.lines = (await backend.putItems(items.slice(1).map((id) => ({ id, title: id, published_at: now - 60 })))).accepted;
out.title = (await backend.getItem(items[0])).title;
out.pv = (await site.track({ articleId: items[0], userId: name, sessionId: "s", dwellMs: 1000 })).pv;
out.stats = (await backend.stats(items[0])).pv;
out.pushed = (await backend.push("discover", items.slice(0, 3), [name])).pushed;
const timeline = site.timeline("discover", name, { limit: 2 });
out.first = ids(await timeline.first());
out.older = ids(await timeline.older());
await backend.push("discover", [items[3]], [name]);
out.newer = ids(await timeline.newer());
out.look = (await site.look(name, items[0])).ok;
out.history = (await site.history(name)).items;
await site.dismiss(name, items[1]);
out.dismissed = (await site.recommendations(name)).excluded.not_interested;
await site.undismiss(name, items[1]);
out.undismissed = (await site.recommendations(name)).excluded.not_interested;
await backend.follow(name, "ann@x/y");
out.follows = (await site.follows(name)).items;
const feed = site.feed(name, { limit: 2 });
out.feed = (await feed.refresh()).items.length;
out.page = typeof feed.page;
out.more = (await feed.more()).items.length;
out.invalid = await site.track({ dwellMs: 1 }).catch(({ status, code, member }) => [status, code, member]);
out.unsigned = await new Freshet({ base: internal, key: { kid, secret: secret + "x" } }).getItem(items[0]).catch(({ status }) => status);
console.log(JSON.stringify(out));
