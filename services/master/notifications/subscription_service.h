// SubscriptionService: subscriptions to problems of schedules (NotificationService). Check → decide
// → write → answer. NotificationLoop finds and reports the problems.
//
// Threads: as master_apis.h. No state.

#ifndef SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_SERVICE_H_
#define SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_SERVICE_H_

#include "escapement/v1/notification_service.pb.h"
#include "google/protobuf/empty.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class SubscriptionService {
 public:
  // `context` outlives the service.
  explicit SubscriptionService(MasterContext& context) : context_(context) {}

  void CreateSubscription(v1::CreateSubscriptionRequest request, Done<v1::Subscription> done);
  void GetSubscription(v1::GetSubscriptionRequest request, Done<v1::Subscription> done);
  void ListSubscriptions(v1::ListSubscriptionsRequest request,
                         Done<v1::ListSubscriptionsResponse> done);
  void UpdateSubscription(v1::UpdateSubscriptionRequest request, Done<v1::Subscription> done);
  void DeleteSubscription(v1::DeleteSubscriptionRequest request,
                          Done<google::protobuf::Empty> done);
  void TestSubscription(v1::TestSubscriptionRequest request,
                        Done<v1::TestSubscriptionResponse> done);

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_SERVICE_H_
