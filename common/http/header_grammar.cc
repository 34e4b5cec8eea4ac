#include "common/http/header_grammar.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace escapement {
namespace {

bool IsDigits(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); });
}

bool IsIpv4(absl::string_view host) {
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), IsDigits);
}

struct Host {
  absl::string_view name;  // IPv6 in brackets
  bool ipv6 = false;
};

// uri-host [":" port] (RFC 9110, 7.2).
std::optional<Host> ReadHost(absl::string_view text) {
  Host host;
  size_t end = 0;
  if (absl::StartsWith(text, "[")) {
    end = text.find(']');
    if (end == absl::string_view::npos) return std::nullopt;
    ++end;
    host.ipv6 = true;
    for (const char c : text.substr(1, end - 2)) {
      if (!absl::ascii_isxdigit(c) && c != ':' && c != '.') return std::nullopt;
    }
  } else {
    end = std::min(text.find(':'), text.size());
    for (const char c : text.substr(0, end)) {
      if (!absl::ascii_isalnum(c) && !absl::StrContains("-._~%!$&'()*+,;=", c)) return std::nullopt;
    }
  }
  host.name = text.substr(0, end);
  absl::string_view port = text.substr(end);
  if (absl::ConsumePrefix(&port, ":") ? !port.empty() && !IsDigits(port) : !port.empty())
    return std::nullopt;
  return host;
}

// The weight of an element such as "gzip;q=0.5"; 1 if it has none, 0 if it is malformed.
double WeightOf(absl::string_view element) {
  const size_t semicolon = element.find(';');
  if (semicolon == absl::string_view::npos) return 1;
  absl::string_view parameter = absl::StripAsciiWhitespace(element.substr(semicolon + 1));
  double weight = 0;
  if (!absl::ConsumePrefix(&parameter, "q=") && !absl::ConsumePrefix(&parameter, "Q=")) return 0;
  return absl::SimpleAtod(parameter, &weight) && weight > 0 ? weight : 0;
}

}  // namespace

std::vector<absl::string_view> HttpHead::Values(absl::string_view name) const {
  std::vector<absl::string_view> values;
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key, name)) values.push_back(absl::StripAsciiWhitespace(value));
  }
  return values;
}

std::optional<HeadFault> FindHeadFault(const HttpHead& head) {
  const std::vector<absl::string_view> hosts = head.Values("host");
  if (hosts.size() > 1 || (hosts.empty() && head.version > 10))
    return HeadFault{400, "a request has one Host header"};
  if (!hosts.empty() && !ReadHost(hosts[0]).has_value())
    return HeadFault{400, "the Host header is malformed"};
  const std::vector<absl::string_view> lengths = head.Values("content-length");
  if (lengths.size() > 1 || (!lengths.empty() && !IsDigits(lengths[0])))
    return HeadFault{400, "a request has at most one Content-Length header, a number"};
  const std::vector<absl::string_view> codings = head.Values("transfer-encoding");
  if (!codings.empty()) {
    if (!lengths.empty() || head.version < 11)
      return HeadFault{400, "Transfer-Encoding stands beside Content-Length, or in HTTP/1.0"};
    if (codings.size() > 1 || !absl::EqualsIgnoreCase(codings[0], "chunked"))
      return HeadFault{501, "the only transfer coding is chunked"};
  }
  const std::vector<absl::string_view> expected = head.Values("expect");
  if (!expected.empty() &&
      (expected.size() > 1 || !absl::EqualsIgnoreCase(expected[0], "100-continue")))
    return HeadFault{417, "the only expectation is 100-continue"};
  if (!absl::StartsWith(head.target, "/") && head.target != "*")
    return HeadFault{400, "the request target is not a path"};
  return std::nullopt;
}

bool IsOwnHost(absl::string_view text, const std::vector<std::string>& names) {
  const std::optional<Host> host = ReadHost(text);
  if (!host.has_value()) return false;
  if (host->ipv6 || IsIpv4(host->name) || absl::EqualsIgnoreCase(host->name, "localhost"))
    return true;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return absl::EqualsIgnoreCase(host->name, name);
  });
}

std::vector<absl::string_view> ListElements(absl::string_view list) {
  std::vector<absl::string_view> elements;
  size_t begin = 0;
  bool quoted = false;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '"') quoted = !quoted;
    if (i < list.size() && (quoted || list[i] != ',')) continue;
    const absl::string_view element = absl::StripAsciiWhitespace(list.substr(begin, i - begin));
    if (!element.empty()) elements.push_back(element);
    begin = i + 1;
  }
  return elements;
}

bool AcceptsCoding(absl::string_view accept_encoding, absl::string_view coding) {
  double any = 0;
  for (const absl::string_view element : ListElements(accept_encoding)) {
    const absl::string_view name = absl::StripAsciiWhitespace(element.substr(0, element.find(';')));
    if (absl::EqualsIgnoreCase(name, coding)) return WeightOf(element) > 0;
    if (name == "*") any = WeightOf(element);
  }
  return any > 0;
}

bool NamesEntityTag(absl::string_view list, absl::string_view tag) {
  absl::ConsumePrefix(&tag, "W/");
  for (absl::string_view named : ListElements(list)) {
    absl::ConsumePrefix(&named, "W/");
    if (named == tag || named == "*") return true;
  }
  return false;
}

}  // namespace escapement
