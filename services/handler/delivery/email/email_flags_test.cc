#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/email/email_transport.h"

ABSL_DECLARE_FLAG(int, email_connections_per_server);
ABSL_DECLARE_FLAG(std::string, email_ehlo_name);

namespace escapement::handler {
namespace email_flags_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Errors() {
  std::vector<std::string> errors;
  ValidateEmailFlags(errors);
  return errors;
}

TEST(EmailFlagsTest, DefaultsAreValid) { EXPECT_THAT(Errors(), IsEmpty()); }

TEST(EmailFlagsTest, WrongValuesAreNamed) {
  const absl::FlagSaver saver;
  for (const int connections : {0, -1, 65}) {
    absl::SetFlag(&FLAGS_email_connections_per_server, connections);
    EXPECT_THAT(Errors(), ElementsAre(HasSubstr("--email_connections_per_server")));
  }
  absl::SetFlag(&FLAGS_email_connections_per_server, 64);
  for (const char* name : {"a b", "a\r\nRSET", "a/b", "a?b", "a#b", "a%0d"}) {
    absl::SetFlag(&FLAGS_email_ehlo_name, name);
    EXPECT_THAT(Errors(), ElementsAre(HasSubstr("--email_ehlo_name"))) << name;
  }
  for (const char* name : {"jobs.example.com", "[192.0.2.1]", "[IPv6:2001:db8::1]"}) {
    absl::SetFlag(&FLAGS_email_ehlo_name, name);
    EXPECT_THAT(Errors(), IsEmpty()) << name;
  }
}

TEST(EmailFlagsTest, MachineWithoutAFullNameGivesItsAddress) {
  EXPECT_EQ(EhloNameOf("jobs.example.com", {"192.0.2.1"}), "jobs.example.com");
  EXPECT_EQ(EhloNameOf("vm", {"192.0.2.1", "2001:db8::1"}), "[192.0.2.1]");
  EXPECT_EQ(EhloNameOf("vm", {"2001:db8::1"}), "[IPv6:2001:db8::1]");
  EXPECT_EQ(EhloNameOf("vm", {}), "vm");
}

}  // namespace email_flags_test
}  // namespace escapement::handler
