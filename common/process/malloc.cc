// The settings of jemalloc in services without a database (store_malloc.cc: with one). After large
// reads a service gives memory back to the kernel within a second or two, even if its threads are
// idle: a thread of jemalloc does it. (Otherwise the arena of each thread would keep freed memory
// until that thread allocates again.) MALLOC_CONF in the environment takes precedence.

extern "C" const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
