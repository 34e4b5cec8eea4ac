#include "services/master/schedules/codec/target_codec.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "services/master/limits.h"

namespace escapement::master {
namespace {

constexpr std::array<absl::string_view, 18> kReservedHeaders = {"accept-encoding",
                                                                "connection",
                                                                "content-encoding",
                                                                "content-length",
                                                                "content-type",
                                                                "cookie2",
                                                                "date",
                                                                "expect",
                                                                "host",
                                                                "idempotency-key",
                                                                "keep-alive",
                                                                "te",
                                                                "trailer",
                                                                "traceparent",
                                                                "tracestate",
                                                                "transfer-encoding",
                                                                "upgrade",
                                                                "via"};
constexpr std::array<absl::string_view, 4> kReservedHeaderPrefixes = {"ce-", "escapement-",
                                                                      "proxy-", "webhook-"};

absl::Status Bad(absl::string_view why) { return absl::InvalidArgumentError(why); }

bool IsUriCharacter(char c) {
  return c > 0x20 && c < 0x7f && !absl::StrContains("\"<>\\^`{|}", std::string(1, c));
}

bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(c) || absl::StrContains("!#$%&'*+-.^_`|~", std::string(1, c));
}

// host:port or [IPv6]:port; the port may be missing unless `port_needed`.
absl::Status CheckHostPort(absl::string_view text, bool port_needed) {
  absl::string_view host;
  absl::string_view rest;
  if (absl::StartsWith(text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return Bad("has an unclosed '['");
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    const bool address = std::all_of(host.begin(), host.end(), [](char c) {
      return absl::ascii_isxdigit(c) || c == ':' || c == '.';
    });
    if (!address || !absl::StrContains(host, ":"))
      return Bad("has no IPv6 address between '[' and ']'");
  } else {
    const size_t colon = text.find(':');
    host = text.substr(0, colon);
    rest = colon == absl::string_view::npos ? absl::string_view() : text.substr(colon);
    const bool name = std::all_of(host.begin(), host.end(), [](char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
    });
    if (!name) return Bad("has a malformed host");
  }
  if (host.empty()) return Bad("has no host");
  if (rest.empty()) return port_needed ? Bad("has no port") : absl::OkStatus();
  uint32_t port = 0;
  if (rest[0] != ':' || rest.size() > 6 || !absl::SimpleAtoi(rest.substr(1), &port) || port < 1 ||
      port > 65'535 || !absl::ascii_isdigit(rest[1])) {
    return Bad("has a malformed port");
  }
  return absl::OkStatus();
}

// Tabs aside, which HTTP allows in values.
bool HasControlCharacter(absl::string_view text) {
  const std::vector<absl::string_view> pieces = absl::StrSplit(text, '\t');
  return std::any_of(pieces.begin(), pieces.end(),
                     [](absl::string_view piece) { return HasControlCharacters(piece); });
}

void ReadHeaders(const v1::HttpTarget& http, const std::string& field,
                 storage::v1::HttpTargetRecord& record, FieldViolations& violations) {
  if (http.headers().size() > kHeadersMax) {
    violations.Add(field, absl::StrCat("must hold at most ", kHeadersMax, " headers"));
    return;
  }
  const std::map<std::string, std::string> sorted(http.headers().begin(), http.headers().end());
  std::set<std::string> seen;
  for (const auto& [name, value] : sorted) {
    const std::string entry =
        absl::StrCat(field, "[", absl::CHexEscape(absl::string_view(name).substr(0, 40)), "]");
    if (absl::Status status = CheckHeaderName(name); !status.ok())
      violations.Add(entry, status.message());
    if (!seen.insert(absl::AsciiStrToLower(name)).second)
      violations.Add(entry, "is given twice (case is ignored)");
    if (value.size() > kHeaderValueBytesMax) {
      violations.Add(entry,
                     absl::StrCat("value must have at most ", kHeaderValueBytesMax, " bytes"));
    }
    if (HasControlCharacter(value))
      violations.Add(entry, "value must not hold control characters such as CR, LF or NUL");
    (*record.mutable_headers())[name] = value;
  }
}

void ReadHttp(const v1::Target& target, const std::string& field,
              storage::v1::TargetRecord& target_record, FieldViolations& violations) {
  const v1::HttpTarget& http = target.http();
  storage::v1::HttpTargetRecord* record = target_record.mutable_http();
  if (absl::Status status = CheckHttpUri(http.uri()); !status.ok()) {
    violations.Add(absl::StrCat(field, ".uri"), status.message());
  }
  const std::string method = http.method().empty() ? "POST" : http.method();
  if (method != "POST" && method != "PUT" && method != "PATCH") {
    violations.Add(absl::StrCat(field, ".method"), "must be POST, PUT or PATCH");
  }
  record->set_uri(http.uri());
  record->set_method(method);
  ReadHeaders(http, absl::StrCat(field, ".headers"), *record, violations);
}

void WriteHttp(const storage::v1::TargetRecord& record, v1::Target& target) {
  v1::HttpTarget* http = target.mutable_http();
  http->set_uri(record.http().uri());
  http->set_method(record.http().method());
  for (const auto& [name, value] : record.http().headers())
    (*http->mutable_headers())[name] = value;
}

void ReadGrpc(const v1::Target& target, const std::string& field, storage::v1::TargetRecord& record,
              FieldViolations& violations) {
  if (absl::Status status = CheckGrpcUri(target.grpc().uri()); !status.ok())
    violations.Add(absl::StrCat(field, ".uri"), status.message());
  record.mutable_grpc()->set_uri(target.grpc().uri());
}

void WriteGrpc(const storage::v1::TargetRecord& record, v1::Target& target) {
  target.mutable_grpc()->set_uri(record.grpc().uri());
}

// The kinds of targets, and how each is validated, stored and shown.
struct KindRow {
  absl::string_view name;  // the field's name in both messages
  v1::Target::KindCase kind;
  storage::v1::TargetRecord::KindCase record_kind;
  // Adds violations with fields below `field` ("schedule.target.http").
  void (*read)(const v1::Target& target, const std::string& field,
               storage::v1::TargetRecord& record, FieldViolations& violations);
  void (*write)(const storage::v1::TargetRecord& record, v1::Target& target);
};
constexpr std::array kKinds = {
    KindRow{"http", v1::Target::kHttp, storage::v1::TargetRecord::kHttp, &ReadHttp, &WriteHttp},
    KindRow{"grpc", v1::Target::kGrpc, storage::v1::TargetRecord::kGrpc, &ReadGrpc, &WriteGrpc},
};

// Returns null if no row has this kind.
template <typename Kind>
const KindRow* FindKind(Kind KindRow::*column, Kind kind) {
  for (const KindRow& row : kKinds) {
    if (row.*column == kind) return &row;
  }
  return nullptr;
}

}  // namespace

absl::Status CheckHttpUri(absl::string_view uri) {
  if (uri.empty()) return Bad("is required");
  if (uri.size() > kUriBytesMax)
    return Bad(absl::StrCat("must have at most ", kUriBytesMax, " bytes"));
  if (!std::all_of(uri.begin(), uri.end(), IsUriCharacter)) {
    return Bad("holds a character that must be percent-encoded (blank, control, or not ASCII)");
  }
  if (absl::StartsWithIgnoreCase(uri, "http://")) {
    uri.remove_prefix(7);
  } else if (absl::StartsWithIgnoreCase(uri, "https://")) {
    uri.remove_prefix(8);
  } else {
    return Bad("must begin with http:// or https://");
  }
  if (absl::StrContains(uri, "#")) return Bad("must not have a fragment");
  const absl::string_view authority = uri.substr(0, uri.find_first_of("/?"));
  if (absl::StrContains(authority, "@")) return Bad("must not have user information");
  return CheckHostPort(authority, /*port_needed=*/false);
}

absl::Status CheckGrpcUri(absl::string_view uri) {
  if (uri.empty()) return Bad("is required");
  if (uri.size() > kUriBytesMax)
    return Bad(absl::StrCat("must have at most ", kUriBytesMax, " bytes"));
  if (!std::all_of(uri.begin(), uri.end(), IsUriCharacter))
    return Bad("holds a blank or control character");
  if (absl::ConsumePrefix(&uri, "dns:///") || absl::ConsumePrefix(&uri, "ipv4:")) {
    return CheckHostPort(uri, /*port_needed=*/true);
  }
  if (absl::ConsumePrefix(&uri, "ipv6:") && !absl::StartsWith(uri, "["))
    return Bad("needs [address]:port after ipv6:");
  absl::Status status = CheckHostPort(uri, /*port_needed=*/true);
  if (!status.ok()) {
    return Bad(absl::StrCat(status.message(),
                            "; must be dns:///host:port, ipv4:address:port, ipv6:[address]:port or "
                            "host:port"));
  }
  return status;
}

absl::Status CheckHeaderName(absl::string_view name) {
  if (name.empty() || name.size() > kHeaderNameBytesMax ||
      !std::all_of(name.begin(), name.end(), IsTokenCharacter)) {
    return Bad("is not a header name");
  }
  const std::string lower = absl::AsciiStrToLower(name);
  const bool reserved =
      std::find(kReservedHeaders.begin(), kReservedHeaders.end(), lower) !=
          kReservedHeaders.end() ||
      std::any_of(kReservedHeaderPrefixes.begin(), kReservedHeaderPrefixes.end(),
                  [&](absl::string_view prefix) { return absl::StartsWith(lower, prefix); });
  return reserved ? Bad("is reserved for HTTP, CloudEvents or the platform") : absl::OkStatus();
}

storage::v1::TargetRecord ReadTarget(const v1::Target& target, absl::string_view field,
                                     FieldViolations& violations) {
  storage::v1::TargetRecord record;
  const KindRow* row = FindKind(&KindRow::kind, target.kind_case());
  if (row == nullptr) {
    const auto name = [](std::string* out, const KindRow& kind) {
      absl::StrAppend(out, kind.name);
    };
    violations.Add(field, absl::StrCat("is required: set ", absl::StrJoin(kKinds, " or ", name)));
  } else {
    row->read(target, absl::StrCat(field, ".", row->name), record, violations);
  }
  return record;
}

void WriteTarget(const storage::v1::TargetRecord& record, v1::Target& target) {
  const KindRow* row = FindKind(&KindRow::record_kind, record.kind_case());
  if (row != nullptr) row->write(record, target);
}

}  // namespace escapement::master
