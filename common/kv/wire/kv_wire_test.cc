#include "common/kv/wire/kv_wire.h"

#include "absl/time/time.h"
#include "escapement/internal/v1/store.pb.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace kv_wire_test {

TEST(KvWire, CommitHasTheTimeOfItsClient) {
  for (const absl::Time now_low :
       {absl::InfinitePast(), absl::FromUnixMicros(1'772'323'200'000'001)}) {
    CommitRequest request;
    request.session = 7;
    request.number = 3;
    request.now_low = now_low;
    wire::CommitCall call;
    ToWire(request, call);
    const CommitRequest read = FromWire(call);
    EXPECT_EQ(read.session, 7u);
    EXPECT_EQ(read.number, 3u);
    EXPECT_EQ(read.now_low, now_low);
  }
}

}  // namespace kv_wire_test
}  // namespace escapement::kv
