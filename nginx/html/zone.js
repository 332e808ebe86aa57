// Which server this page came from. The internal server answers another file under this name.
export const zone = "public";
