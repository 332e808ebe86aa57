// site.mjs BASE: a site in Express. test_client_sites.py says what its pages are.
import { createRequire } from "node:module";
import { freshetExpress, links } from "../../../scripts/clients/javascript/express.mjs";

const express = createRequire(new URL("../../browser/", import.meta.url))("express");
const key = { kid: "k1", secret: "i".repeat(32) };
const tokenKey = process.env.WITH_TOKENS && { kid: "t1", secret: "t".repeat(32) };
const freshet = freshetExpress({ base: process.argv[2], key, tokenKey, reader: (request) => request.query.reader });

const app = express();
app.set("trust proxy", true);
app.use(freshet);
app.get("/", async (request, response) => {
  const { hot, recommended, similar } = request.freshet;
  const lists = [await hot({ limit: 4 }), await recommended({ limit: 1 }), await similar("a/b", { limit: 1 })];
  response.send(lists.map((items) => `<ol>${links(items)}</ol>`).join(""));
});
app.post("/save", async (request, response) => response.send(String(await freshet.saved("a/b", { title: "T", published_at: 1 }))));
app.post("/remove", async (request, response) => response.send(String(await freshet.removed("a/b"))));
const server = app.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
