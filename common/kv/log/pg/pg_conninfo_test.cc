#include <string>

#include "absl/status/status.h"
#include "common/kv/log/pg/pg_connection.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace pg_conninfo_test {

// "" if the option is not set; fails if it is set twice.
std::string Option(const std::string& url, const std::string& keyword) {
  const auto conninfo = MakePgConninfo(url, "our-name");
  EXPECT_TRUE(conninfo.ok()) << conninfo.status();
  std::string found;
  for (const auto& [name, value] : *conninfo) {
    if (name != keyword) continue;
    EXPECT_TRUE(found.empty()) << keyword << " is set twice";
    found = value;
  }
  return found;
}

TEST(PgConninfo, UrlWinsOverDefaults) {
  EXPECT_EQ(Option("postgresql://a,b/db", "target_session_attrs"), "read-write");
  EXPECT_EQ(Option("postgresql://a,b/db?target_session_attrs=primary", "target_session_attrs"),
            "primary");
  EXPECT_EQ(Option("host=a connect_timeout=9", "connect_timeout"), "9");
  EXPECT_EQ(Option("host=a", "connect_timeout"), "3");
}

TEST(PgConninfo, EveryOptionOfLibpqPasses) {
  const std::string url =
      "postgresql://user:secret@a:1,b:2/db?sslmode=verify-full&sslrootcert=/ca&options=-cx%3Dy";
  EXPECT_EQ(Option(url, "host"), "a,b");
  EXPECT_EQ(Option(url, "port"), "1,2");
  EXPECT_EQ(Option(url, "password"), "secret");
  EXPECT_EQ(Option(url, "sslmode"), "verify-full");
  EXPECT_EQ(Option(url, "sslrootcert"), "/ca");
  EXPECT_EQ(Option(url, "options"), "-cx=y");
}

TEST(PgConninfo, NameIsAlwaysOurs) {
  EXPECT_EQ(Option("host=a application_name=theirs", "application_name"), "our-name");
}

TEST(PgConninfo, ErrorDoesNotRepeatTheUrl) {
  const auto conninfo = MakePgConninfo("postgresql://user:secret@a/db?nonsense=secret", "name");
  EXPECT_EQ(conninfo.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(conninfo.status().message().find("secret"), std::string::npos);
}

}  // namespace pg_conninfo_test
}  // namespace escapement::kv
