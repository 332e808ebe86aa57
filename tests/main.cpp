#define CATCH_CONFIG_MAIN  // defines main() with Catch2 2
#include <catch2/catch.hpp>

#ifdef CATCH_VERSION_MAJOR
#if CATCH_VERSION_MAJOR >= 3
int main(int argc, char* argv[]) { return Catch::Session().run(argc, argv); }
#endif
#endif
