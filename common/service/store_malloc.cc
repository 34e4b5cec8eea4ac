// How jemalloc behaves in the programs that have a database in them (malloc.cc: in the others).
// What RocksDB frees, tens of MiB with each table that it has written, stays for a minute: given
// back at once, it has to be got from the kernel again page by page, which under load holds threads
// up for tens of milliseconds. MALLOC_CONF in the environment goes before.

extern "C" const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:60000,muzzy_decay_ms:0";
