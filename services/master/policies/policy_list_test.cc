// ListPolicies with filter and order_by, through the API.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace policy_list_test {

using kv::ColumnFamily;

std::set<std::string> Fields(const absl::Status& status) {
  std::set<std::string> fields;
  for (const auto& [field, text] : FieldViolationsOf(status)) fields.insert(field);
  return fields;
}

class PolicyListTest : public testing::Test {
 protected:
  MasterWorld fixture_;
};

TEST_F(PolicyListTest, AListIsFilteredAndOrdered) {
  for (const char* id : {"ab", "a1", "b", "a2", "c"}) {
    v1::CreatePolicyRequest request;
    request.set_parent("tenants/default");
    request.set_policy_id(id);
    request.mutable_policy()->set_max_concurrent(id[0] == 'a' ? 5 : 50);
    ASSERT_TRUE(fixture_.Call(&PolicyApi::CreatePolicy, request).ok());
  }
  int pages = 0;
  const auto list = [&](const std::string& filter, const std::string& order_by) {
    v1::ListPoliciesRequest request;
    request.set_parent("tenants/default");
    request.set_page_size(2);
    request.set_filter(filter);
    request.set_order_by(order_by);
    std::string ids;
    pages = 0;
    do {
      const auto page = fixture_.Call(&PolicyApi::ListPolicies, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const v1::ThrottlePolicy& policy : page->policies())
        ids += policy.name().substr(policy.name().rfind('/'));
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty() && ++pages < 100);
    return ids;
  };
  EXPECT_EQ(list("", "name desc"), "/c/b/ab/a2/a1");
  EXPECT_EQ(list("name = \"a*\"", ""), "/a1/a2/ab");
  EXPECT_EQ(pages, 1);
  EXPECT_EQ(list("name = \"a*\"", "name desc"), "/ab/a2/a1");
  EXPECT_EQ(list("max_concurrent > 5", ""), "/b/c");
  EXPECT_EQ(pages, 0);
  EXPECT_EQ(list("name = \"a*\" AND max_concurrent > 5", ""), "");
  EXPECT_EQ(list("state = PAUSED OR name = ab", ""), "/ab");

  v1::ListPoliciesRequest request;
  request.set_parent("tenants/default");
  request.set_filter("colour = red");
  request.set_order_by("size");
  EXPECT_EQ(Fields(fixture_.Call(&PolicyApi::ListPolicies, request).status()),
            (std::set<std::string>{"filter", "order_by"}));
}

TEST_F(PolicyListTest, AFilteredPageExaminesABoundedNumberOfPolicies) {
  storage::v1::PolicyRecord record;
  record.set_tenant("default");
  std::vector<kv::Group> groups(1);
  for (int i = 0; i < 10'500; ++i) {
    record.set_policy_id(absl::StrCat("p", 10'000 + i));
    record.set_paused(i == 10'400);
    groups[0].mutations.push_back({.cf = ColumnFamily::kPolicies,
                                   .key = PolicyKey("default", record.policy_id()),
                                   .value = record.SerializeAsString()});
  }
  fixture_.Commit(std::move(groups));
  v1::ListPoliciesRequest request;
  request.set_parent("tenants/default");
  request.set_filter("state = PAUSED");
  const auto first = fixture_.Call(&PolicyApi::ListPolicies, request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->policies_size(), 0);
  request.set_page_token(first->next_page_token());
  const auto second = fixture_.Call(&PolicyApi::ListPolicies, request);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->policies_size(), 1);
  EXPECT_EQ(second->policies(0).name(), "tenants/default/policies/p20400");
  EXPECT_EQ(second->next_page_token(), "");
}

}  // namespace policy_list_test
}  // namespace escapement::master
