// Which server this page came from, and whether it is a demonstration whose Redis can be stopped (./scripts/run). The internal
// server answers another file under this name.
export const zone = "public", demo = false;
