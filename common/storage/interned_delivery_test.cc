#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace interned_delivery_test {

const absl::Time kDue = absl::FromUnixSeconds(1'772'323'200);
constexpr absl::Duration kPeriod = absl::Hours(28 * 24);

storage::v1::DeliveryRecord DeliveryTo(const std::string& uri) {
  storage::v1::DeliveryRecord delivery;
  delivery.mutable_target()->mutable_http()->set_uri(uri);
  return delivery;
}

TEST(InternedDeliveryTest, OneDefinitionForADeliveryAndAPeriod) {
  const InternedDelivery one = Intern(DeliveryTo("http://h/"), kDue);
  const absl::Time begin = absl::UnixEpoch() + DeliveryPeriodOf(kDue) * kPeriod;
  for (const absl::Time due : {begin, begin + kPeriod - absl::Microseconds(1)}) {
    EXPECT_EQ(Intern(DeliveryTo("http://h/"), due).hash, one.hash);
    EXPECT_EQ(Intern(DeliveryTo("http://h/"), due).definition, one.definition);
  }
  EXPECT_NE(Intern(DeliveryTo("http://h/other"), kDue).hash, one.hash);
  const InternedDelivery next = Intern(DeliveryTo("http://h/"), begin + kPeriod);
  EXPECT_NE(next.hash, one.hash);
  EXPECT_EQ(DeliveryPeriodOf(next.hash), DeliveryPeriodOf(one.hash) + 1);
}

TEST(InternedDeliveryTest, KeysAreInTheOrderOfTheirPeriods) {
  for (const char* uri : {"http://h/1", "http://h/2", "http://h/3"}) {
    const InternedDelivery interned = Intern(DeliveryTo(uri), kDue);
    const DeliveryPeriod period = DeliveryPeriodOf(kDue);
    EXPECT_EQ(DeliveryPeriodOf(interned.hash), period);
    EXPECT_GT(InternKey(interned.hash), DeliveryPeriodBegin(period));
    EXPECT_LT(InternKey(interned.hash), DeliveryPeriodBegin(period + 1));
    EXPECT_TRUE(IsDeliveryOfPeriod(InternKey(interned.hash), interned.definition));
  }
}

TEST(InternedDeliveryTest, OtherDefinitionsAreTold) {
  const InternedDelivery interned = Intern(DeliveryTo("http://h/"), kDue);
  EXPECT_FALSE(IsDeliveryOfPeriod(DefinitionKey(interned.hash, 1), interned.definition));
  EXPECT_FALSE(IsDeliveryOfPeriod(interned.hash.bytes(), interned.definition));
  EXPECT_FALSE(IsDeliveryOfPeriod("", interned.definition));
  EXPECT_FALSE(IsDeliveryOfPeriod(InternKey(interned.hash), "\xff"));
  storage::v1::DefinitionRecord earlier;
  *earlier.mutable_delivery() = DeliveryTo("http://h/");
  EXPECT_FALSE(IsDeliveryOfPeriod(InternKey(interned.hash), earlier.SerializeAsString()));
}

TEST(InternedDeliveryTest, HashOfAnEvent) {
  const Uid hash = Intern(DeliveryTo("http://h/"), kDue).hash;
  storage::v1::EventRecord event;
  EXPECT_EQ(DeliveryHashOf(event), std::nullopt);
  event.set_definition_hash(std::string(hash.bytes()));
  EXPECT_EQ(DeliveryHashOf(event), hash);
}

TEST(InternedDeliveryTest, PeriodsAreBounded) {
  EXPECT_EQ(DeliveryPeriodOf(absl::InfinitePast()), 0);
  EXPECT_EQ(DeliveryPeriodOf(absl::UnixEpoch() - absl::Hours(1)), 0);
  EXPECT_EQ(DeliveryPeriodOf(absl::InfiniteFuture()), 65'535);
}

}  // namespace interned_delivery_test
}  // namespace escapement
