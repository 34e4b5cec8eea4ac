#include "common/kv/not_leader.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace not_leader_test {

TEST(NotLeader, AddressComesBackFromTheMessage) {
  for (const char* address : {"", "10.0.0.7:7400", "store-1.store:7400", "[::1]:7400"}) {
    const absl::Status status = NotLeader(address);
    EXPECT_TRUE(absl::IsUnavailable(status));
    // As the wire carries it.
    const absl::Status wired(status.code(), status.message());
    EXPECT_EQ(LeaderAddressOf(wired), address);
    EXPECT_EQ(LeaderAddressOf(absl::UnavailableError(absl::StrCat("scan: ", status.message()))),
              address);
  }
}

TEST(NotLeader, OtherStatusesHaveNoAddress) {
  EXPECT_EQ(LeaderAddressOf(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(LeaderAddressOf(absl::UnavailableError("the store has stopped")), std::nullopt);
  EXPECT_EQ(LeaderAddressOf(absl::AbortedError(NotLeader("a:1").message())), std::nullopt);
}

}  // namespace not_leader_test
}  // namespace escapement::kv
