// Options that all uses of libcurl share, and the check of the addresses to which it connects.
//
// Threads: NewCurlMulti from any; the rest belongs to the thread that uses the handle.

#ifndef COMMON_NET_CURL_OPTIONS_H_
#define COMMON_NET_CURL_OPTIONS_H_

#include <curl/curl.h>

#include "common/net/address_rule.h"

namespace escapement {

// Only the protocols ("http,https"), no redirects, no proxy and no .netrc of the environment,
// verified certificates, no signals. The end of a transfer does not wait for a name server.
void SetCommonOptions(CURL* easy, const char* protocols);

// libcurl is started before the first one is made.
CURLM* NewCurlMulti();

// Opens sockets only to addresses that a rule allows. The address that is checked is the one that
// is connected to.
struct CheckedSocket {
  const AddressRule* addresses = nullptr;  // null: all are allowed
  bool refused = false;                    // the last address that was tried is not allowed
  bool allowed = false;                    // one was, and may have been written to

  // For CURLOPT_OPENSOCKETFUNCTION, with the CheckedSocket as its data.
  static curl_socket_t Open(void* self, curlsocktype purpose, curl_sockaddr* address);
};

}  // namespace escapement

#endif  // COMMON_NET_CURL_OPTIONS_H_
