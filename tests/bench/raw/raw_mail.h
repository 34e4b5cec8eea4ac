// The raw limit of e-mails: bare libcurl.

#ifndef TESTS_BENCH_RAW_RAW_MAIL_H_
#define TESTS_BENCH_RAW_RAW_MAIL_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace escapement::bench {

// Sends `mails` without TLS over `connections` connections. Each has a thread, because libcurl's
// SMTP waits within a transfer. Returns mails per second; 0 if one was refused.
double RawMail(const std::string& smtp_uri, uint64_t mails, size_t text_bytes, int connections);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_MAIL_H_
