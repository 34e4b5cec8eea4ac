// The settings of jemalloc in programs with a database (malloc.cc: without one). RocksDB frees tens
// of MiB with each table that it has written, and jemalloc keeps that memory for a minute. If it
// gave the memory back at once, the kernel would have to provide it again page by page. Under load
// that stops threads for tens of milliseconds. MALLOC_CONF in the environment takes precedence.

extern "C" const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:60000,muzzy_decay_ms:0";
