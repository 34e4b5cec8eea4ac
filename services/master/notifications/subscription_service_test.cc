#include "services/master/notifications/subscription_service.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/storage/schedule_table.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/notifications/subscription_codec.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace subscription_service_test {

using v1::Subscription;

v1::CreateSubscriptionRequest Valid(const std::string& id) {
  v1::CreateSubscriptionRequest request;
  request.set_parent("tenants/default");
  request.set_subscription_id(id);
  request.mutable_subscription()->mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/");
  return request;
}

struct Subscriptions {
  MasterWorld world;

  absl::StatusOr<Subscription> Create(const v1::CreateSubscriptionRequest& request) {
    return world.Call(&SubscriptionService::CreateSubscription, request);
  }
  absl::StatusOr<Subscription> Get(const std::string& id) {
    v1::GetSubscriptionRequest request;
    request.set_name("tenants/default/subscriptions/" + id);
    return world.Call(&SubscriptionService::GetSubscription, request);
  }
};

TEST(SubscriptionService, SubscriptionIsShownWithItsDefaults) {
  Subscriptions test;
  const auto made = test.Create(Valid("ops"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->name(), "tenants/default/subscriptions/ops");
  EXPECT_EQ(made->late_by().seconds(), 300);
  EXPECT_EQ(made->version(), 1);
  EXPECT_FALSE(made->etag().empty());
  EXPECT_FALSE(made->has_check_time());
  EXPECT_EQ(test.Get("ops")->SerializeAsString(), made->SerializeAsString());
  EXPECT_EQ(test.Create(Valid("ops")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(absl::IsNotFound(test.Get("none").status()));
}

TEST(SubscriptionService, MessagesToPeopleHaveTemplates) {
  Subscriptions test;
  v1::CreateSubscriptionRequest request = Valid("mail");
  v1::EmailTarget& email = *request.mutable_subscription()->mutable_target()->mutable_email();
  email.set_smtp_uri("smtp://127.0.0.1");
  email.set_from("jobs@example.com");
  email.add_to("ops@example.com");
  const auto made = test.Create(request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->target().email().subject(), "{{payload.title}}");
  EXPECT_EQ(made->target().email().text(), "{{payload.text}}");
  email.set_subject("Help");
  request.set_subscription_id("own");
  EXPECT_EQ(test.Create(request)->target().email().subject(), "Help");
}

TEST(SubscriptionService, WrongFieldsAreAllNamed) {
  Subscriptions test;
  v1::CreateSubscriptionRequest request = Valid("ops");
  request.mutable_subscription()->set_filter("nothing = 1");
  request.mutable_subscription()->add_kinds(Subscription::KIND_UNSPECIFIED);
  request.mutable_subscription()->mutable_late_by()->set_nanos(1);
  request.mutable_subscription()->mutable_target()->mutable_http()->set_uri("ftp://x");
  const absl::Status status = test.Create(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field : {"subscription.filter", "subscription.kinds[0]", "subscription.late_by",
                            "subscription.target.http.uri"})
    EXPECT_TRUE(absl::StrContains(status.message(), field)) << status;
}

TEST(SubscriptionService, UpdateChangesWhatTheMaskNames) {
  Subscriptions test;
  const auto made = test.Create(Valid("ops"));
  v1::UpdateSubscriptionRequest request;
  Subscription& patch = *request.mutable_subscription();
  patch.set_name(made->name());
  patch.set_filter("labels.team = \"a\"");
  patch.add_kinds(Subscription::LATE);
  patch.add_kinds(Subscription::FAILED);
  request.mutable_update_mask()->add_paths("kinds");
  const auto changed = test.world.Call(&SubscriptionService::UpdateSubscription, request);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->filter(), "");
  ASSERT_EQ(changed->kinds_size(), 2);
  EXPECT_EQ(changed->kinds(0), Subscription::FAILED);
  EXPECT_EQ(changed->version(), 2);
  patch.set_etag(made->etag());
  EXPECT_EQ(test.world.Call(&SubscriptionService::UpdateSubscription, request).status().code(),
            absl::StatusCode::kAborted);
}

TEST(SubscriptionService, DeleteTakesWhatWasFound) {
  Subscriptions test;
  const auto made = test.Create(Valid("ops"));
  const std::string state = SubscriptionStateKey("default", "ops");
  test.world.Put(kv::ColumnFamily::kPolicies, state, "");
  v1::DeleteSubscriptionRequest request;
  request.set_name(made->name());
  request.set_etag("\"0\"");
  EXPECT_EQ(test.world.Call(&SubscriptionService::DeleteSubscription, request).status().code(),
            absl::StatusCode::kAborted);
  request.set_etag(made->etag());
  EXPECT_TRUE(test.world.Call(&SubscriptionService::DeleteSubscription, request).ok());
  EXPECT_TRUE(absl::IsNotFound(test.Get("ops").status()));
  EXPECT_FALSE(test.world.Get(kv::ColumnFamily::kPolicies, state).has_value());
}

TEST(SubscriptionService, ListHasPages) {
  Subscriptions test;
  for (const char* id : {"c", "a", "b"}) ASSERT_TRUE(test.Create(Valid(id)).ok());
  v1::ListSubscriptionsRequest request;
  request.set_parent("tenants/default");
  request.set_page_size(2);
  const auto first = test.world.Call(&SubscriptionService::ListSubscriptions, request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->subscriptions_size(), 2);
  EXPECT_EQ(first->subscriptions(0).name(), "tenants/default/subscriptions/a");
  request.set_page_token(first->next_page_token());
  const auto second = test.world.Call(&SubscriptionService::ListSubscriptions, request);
  ASSERT_EQ(second->subscriptions_size(), 1);
  EXPECT_EQ(second->subscriptions(0).name(), "tenants/default/subscriptions/c");
}

TEST(SubscriptionService, ListSaysHowManyProblemsLast) {
  Subscriptions test;
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(test.Create(Valid(id)).ok());
  storage::v1::SubscriptionStateRecord state;
  state.set_checked_to_micros(7);
  state.set_messages(1);
  state.add_problems();
  state.add_problems()->set_ended_micros(5);
  const std::string of_another = state.SerializeAsString();
  storage::v1::SubscriptionRecord b;
  ASSERT_TRUE(b.ParseFromString(
      *test.world.Get(kv::ColumnFamily::kPolicies, SubscriptionKey("default", "b"))));
  state.set_uid(b.uid());
  test.world.Put(kv::ColumnFamily::kPolicies, SubscriptionStateKey("default", "b"),
                 state.SerializeAsString());
  test.world.Put(kv::ColumnFamily::kPolicies, SubscriptionStateKey("default", "c"), of_another);
  v1::ListSubscriptionsRequest request;
  request.set_parent("tenants/default");
  const auto list = test.world.Call(&SubscriptionService::ListSubscriptions, request);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->subscriptions_size(), 3);
  EXPECT_FALSE(list->subscriptions(0).has_check_time());
  EXPECT_EQ(list->subscriptions(1).problem_count(), 1);
  EXPECT_TRUE(list->subscriptions(1).problems().empty());
  EXPECT_FALSE(list->subscriptions(1).last_event().empty());
  EXPECT_FALSE(list->subscriptions(2).has_check_time()) << "the state is of a former subscription";
}

TEST(SubscriptionService, MoreThanTheBoundAreRefused) {
  Subscriptions test;
  for (int64_t i = 0; i < kSubscriptionsMax; ++i)
    ASSERT_TRUE(test.Create(Valid(absl::StrCat("s", i))).ok());
  const absl::Status refused = test.Create(Valid("more")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
}

TEST(SubscriptionService, TestSendsAMessage) {
  Subscriptions test;
  const auto made = test.Create(Valid("ops"));
  v1::TestSubscriptionRequest request;
  request.set_name(made->name());
  request.set_request_id("r");
  const auto sent = test.world.Call(&SubscriptionService::TestSubscription, request);
  ASSERT_TRUE(sent.ok()) << sent.status();
  const auto again = test.world.Call(&SubscriptionService::TestSubscription, request);
  EXPECT_EQ(again->event(), sent->event());
  v1::GetEventRequest get;
  get.set_name(sent->event());
  const auto event = test.world.Call(&EventApi::GetEvent, get);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->target().http().uri(), "http://127.0.0.1:9/");
  v1::Notice notice;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(event->payload(), &notice).ok());
  EXPECT_EQ(notice.subscription(), made->name());
  EXPECT_EQ(notice.title(), "This is a test of a notification");
  EXPECT_TRUE(IsNoticeEventId(event->event_id()));
  request.set_name("tenants/default/subscriptions/none");
  request.clear_request_id();
  EXPECT_TRUE(
      absl::IsNotFound(test.world.Call(&SubscriptionService::TestSubscription, request).status()));
}

}  // namespace subscription_service_test
}  // namespace escapement::master
