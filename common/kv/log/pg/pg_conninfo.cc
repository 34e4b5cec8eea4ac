#include "common/kv/log/pg/pg_conninfo.h"

#include <postgresql/libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace escapement::kv {
namespace {

constexpr std::pair<const char*, const char*> kDefaults[] = {
    {"target_session_attrs", "read-write"},
    {"connect_timeout", "3"},       // seconds
    {"keepalives_idle", "3"},       // seconds
    {"keepalives_interval", "2"},   // seconds
    {"keepalives_count", "3"},      //
    {"tcp_user_timeout", "10000"},  // milliseconds
};

}  // namespace

absl::StatusOr<PgConninfo> MakePgConninfo(const std::string& url,
                                          const std::string& application_name) {
  char* error = nullptr;
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &error);
  if (options == nullptr) {
    // The message may repeat parts of the URL.
    PQfreemem(error);
    return absl::InvalidArgumentError("not a PostgreSQL URL, or it has an unknown option");
  }
  PgConninfo conninfo;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val != nullptr) conninfo.emplace_back(option->keyword, option->val);
  }
  PQconninfoFree(options);
  // A service file may set any option, and our defaults would override it.
  const auto has = [&](absl::string_view keyword) {
    return std::any_of(conninfo.begin(), conninfo.end(),
                       [&](const auto& option) { return option.first == keyword; });
  };
  const bool by_service = has("service") || std::getenv("PGSERVICE") != nullptr;
  for (const auto& [keyword, value] : kDefaults) {
    if (by_service || has(keyword)) continue;
    // libpq's own variables are weaker than the URL and stronger than our defaults.
    if (keyword == absl::string_view("connect_timeout") && std::getenv("PGCONNECT_TIMEOUT"))
      continue;
    if (keyword == absl::string_view("target_session_attrs") && std::getenv("PGTARGETSESSIONATTRS"))
      continue;
    conninfo.emplace_back(keyword, value);
  }
  std::erase_if(conninfo, [](const auto& option) { return option.first == "application_name"; });
  conninfo.emplace_back("application_name", application_name);
  return conninfo;
}

}  // namespace escapement::kv
