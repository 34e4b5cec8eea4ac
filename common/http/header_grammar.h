// The grammars of HTTP that decide how a request is read (RFC 9110, 9112): its head as a whole,
// lists, entity tags and codings.
//
// Pure.

#ifndef COMMON_HTTP_HEADER_GRAMMAR_H_
#define COMMON_HTTP_HEADER_GRAMMAR_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement {

struct HttpHead {
  int version = 11;  // 10: HTTP/1.0
  absl::string_view target;
  std::vector<std::pair<absl::string_view, absl::string_view>> headers = {};

  // All values of the header, in any case of its name.
  std::vector<absl::string_view> Values(absl::string_view name) const;
};

struct HeadFault {
  int status = 400;
  absl::string_view text;
};

// Why the request is refused before it is routed. Another server on the way might read such a head
// in another way, and so see another request in its bytes (request smuggling).
std::optional<HeadFault> FindHeadFault(const HttpHead& head);

// True if a browser cannot have been led to this host by a name that somebody else owns (DNS
// rebinding): the Host header has an IP address, "localhost" or one of `names`.
bool IsOwnHost(absl::string_view host, const std::vector<std::string>& names);

// The elements of a comma-separated list. Commas in quotes separate nothing.
std::vector<absl::string_view> ListElements(absl::string_view list);

// True if an Accept-Encoding lets the answer have this coding: its own weight decides, else that of
// "*".
bool AcceptsCoding(absl::string_view accept_encoding, absl::string_view coding);

// True if a list of entity tags, as in If-None-Match, has this one or "*". "W/" makes no difference
// (RFC 9110, 8.8.3.2: weak comparison).
bool NamesEntityTag(absl::string_view list, absl::string_view tag);

}  // namespace escapement

#endif  // COMMON_HTTP_HEADER_GRAMMAR_H_
