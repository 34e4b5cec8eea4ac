// How jemalloc behaves in the services (store_malloc.cc: where a database is in them). A service
// that has read much gives the memory back within a second or two, also when its threads have
// nothing more to do: a thread of jemalloc's own does it. (Otherwise each thread's arena keeps what
// was freed in it until that thread allocates again.) MALLOC_CONF in the environment goes before.

extern "C" const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
