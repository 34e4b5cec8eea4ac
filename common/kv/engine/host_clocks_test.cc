#include "absl/strings/str_cat.h"
#include "common/kv/engine/store_clock.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace host_clocks_test {

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);

TEST(HostClocks, CountsMachinesThatDisagreeByMoreThanASecond) {
  HostClocks hosts("own");
  hosts.Note({"right", kStart}, absl::Seconds(100));
  hosts.Note({"behind", kStart - absl::Milliseconds(1'500)}, absl::Seconds(100));
  const HostClocks::Count count = hosts.CountAt(absl::Seconds(103), kStart + absl::Seconds(3));
  EXPECT_EQ(count.connected, 2u);
  EXPECT_EQ(count.disagree, 1u);
  // After the store's wall clock stepped, the other one agrees.
  EXPECT_EQ(hosts.CountAt(absl::Seconds(103), kStart + absl::Milliseconds(1'200)).disagree, 1u);
  EXPECT_EQ(hosts.CountAt(absl::Seconds(103), kStart + absl::Hours(2)).disagree, 2u);
}

TEST(HostClocks, KeepsTheLatestReportOfAMachine) {
  HostClocks hosts("own");
  hosts.Note({"a", kStart}, absl::Seconds(100));
  hosts.Note({"a", kStart + absl::Hours(1)}, absl::Seconds(101));
  EXPECT_EQ(hosts.CountAt(absl::Seconds(101), kStart + absl::Hours(1)).disagree, 0u);
}

TEST(HostClocks, OwnAndUnknownMachinesAreNoEvidence) {
  HostClocks hosts("own");
  hosts.Note({"own", kStart}, absl::Seconds(100));
  hosts.Note({"", kStart}, absl::Seconds(100));
  EXPECT_EQ(hosts.CountAt(absl::Seconds(100), kStart + absl::Hours(1)).connected, 0u);
}

TEST(HostClocks, SilentMachinesAreForgotten) {
  HostClocks hosts("own");
  for (size_t i = 0; i < HostClocks::kHostsMax; ++i)
    hosts.Note({absl::StrCat("old", i), kStart}, absl::Seconds(100));
  hosts.Note({"too many", kStart}, absl::Seconds(105));
  EXPECT_EQ(hosts.CountAt(absl::Seconds(105), kStart).connected, HostClocks::kHostsMax);
  hosts.Note({"new", kStart}, absl::Seconds(111));
  EXPECT_EQ(hosts.CountAt(absl::Seconds(111), kStart).connected, 1u);
}

}  // namespace host_clocks_test
}  // namespace escapement::kv
