// The table of transports has a row for each kind of target, and attempts reach their row.

#include "services/handler/delivery/transport_table.h"

#include <memory>
#include <string>
#include <vector>

#include "common/records/target_key.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "tests/fixtures/collecting_sink.h"

namespace escapement::handler {
namespace {

constexpr char kNoTransport[] = "no transport serves this kind of target";

// Sends one attempt to `target` and waits for its result.
DeliveryResult SendTo(const storage::v1::TargetRecord& target) {
  auto definition = std::make_shared<storage::v1::DefinitionRecord>();
  *definition->mutable_delivery()->mutable_target() = target;
  auto context = std::make_shared<DeliveryContext>();
  context->definition = definition;
  context->payload = std::make_shared<const std::string>("{}");
  context->target_key = TargetKeyOf(target);
  context->timeout = absl::Milliseconds(50);
  const auto sink = std::make_shared<fixtures::CollectingSink>();
  const std::unique_ptr<DeliveryTransport> transports = NewTransports();
  std::vector<DeliveryAttempt> attempts(1);
  attempts[0].tag = 7;
  attempts[0].context = context;
  attempts[0].event_id = "event";
  transports->Send(std::move(attempts), sink);
  EXPECT_TRUE(sink->Await(1));
  return sink->Only(7);
}

TEST(TransportTableTest, EachKindOfTargetHasATransport) {
  const auto* kinds = storage::v1::TargetRecord::descriptor()->FindOneofByName("kind");
  ASSERT_GT(kinds->field_count(), 0);
  for (int i = 0; i < kinds->field_count(); ++i) {
    storage::v1::TargetRecord target;
    auto* kind = target.GetReflection()->MutableMessage(&target, kinds->field(i));
    kind->GetReflection()->SetString(kind, kind->GetDescriptor()->FindFieldByName("uri"),
                                     "127.0.0.1:1");
    const DeliveryResult result = SendTo(target);
    EXPECT_NE(result.status, DeliveryStatus::kAccepted) << kinds->field(i)->name();
    EXPECT_NE(result.message, kNoTransport) << kinds->field(i)->name();
  }
}

TEST(TransportTableTest, TargetWithoutKindIsRejected) {
  const DeliveryResult result = SendTo({});
  EXPECT_EQ(result.status, DeliveryStatus::kRejected);
  EXPECT_EQ(result.message, kNoTransport);
}

}  // namespace
}  // namespace escapement::handler
