// The options of all uses of libcurl: HTTP/1.1 (ADR 26), only the protocols that are asked for, no
// redirects, no proxy and no .netrc of the environment, verified certificates, no signals. The end
// of a transfer does not wait for a name server.
//
// Threads: any.

#ifndef COMMON_NET_CURL_OPTIONS_H_
#define COMMON_NET_CURL_OPTIONS_H_

#include <curl/curl.h>

namespace escapement {

// Starts libcurl. Before the first handle.
void StartCurl();

// `protocols`: as libcurl writes them, e.g. "http,https".
void SetCommonCurlOptions(CURL* easy, const char* protocols);

}  // namespace escapement

#endif  // COMMON_NET_CURL_OPTIONS_H_
