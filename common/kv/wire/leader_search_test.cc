#include "common/kv/wire/leader_search.h"

#include "absl/strings/str_cat.h"
#include "common/kv/not_leader.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace leader_search_test {

const StoreAddress kA{"a:1"}, kB{"b:1"}, kX{"x:1"};
const absl::Status kBroken = absl::UnavailableError("the connection to the store has ended");

std::string Targets(const LeaderSearch& search) {
  std::string targets;
  for (const StoreAddress& candidate : search.Candidates())
    absl::StrAppend(&targets, candidate.target, " ");
  return targets;
}

TEST(LeaderSearch, OneAddressIsCalledAtOnceAndKeptWhileBroken) {
  LeaderSearch search({"a:1"});
  EXPECT_EQ(search.current(), kA);
  EXPECT_FALSE(search.has_choice());
  EXPECT_FALSE(search.OnCallFailed(kA, kBroken));
  EXPECT_EQ(search.current(), kA);
}

TEST(LeaderSearch, OneAddressThatDoesNotLeadBeginsASearch) {
  LeaderSearch search({"a:1"});
  EXPECT_TRUE(search.OnCallFailed(kA, NotLeader("x:1")));
  EXPECT_EQ(search.current(), std::nullopt);
  EXPECT_EQ(Targets(search), "a:1 x:1 ");
  search.OnProbe(kX, absl::OkStatus());
  EXPECT_EQ(search.current(), kX);
  // From now on a broken connection begins a search, too.
  EXPECT_TRUE(search.OnCallFailed(kX, kBroken));
  EXPECT_EQ(Targets(search), "a:1 x:1 ");
}

TEST(LeaderSearch, OneAddressWithoutALeaderIsAskedAgain) {
  LeaderSearch search({"a:1"});
  EXPECT_TRUE(search.OnCallFailed(kA, NotLeader("")));
  EXPECT_EQ(Targets(search), "a:1 ");
  search.OnProbe(kA, absl::OkStatus());
  EXPECT_EQ(search.current(), kA);
}

TEST(LeaderSearch, FirstStoreThatLeadsIsTaken) {
  LeaderSearch search({"a:1", "b:1"});
  EXPECT_EQ(search.current(), std::nullopt);
  search.OnProbe(kA, NotLeader("b:1"));
  EXPECT_EQ(search.current(), std::nullopt);
  search.OnProbe(kB, absl::OkStatus());
  EXPECT_EQ(search.current(), kB);
  // A late answer of the search changes nothing.
  search.OnProbe(kA, absl::OkStatus());
  EXPECT_EQ(search.current(), kB);
}

TEST(LeaderSearch, OnlyTheCurrentStoreBeginsASearch) {
  LeaderSearch search({"a:1", "b:1"});
  search.OnProbe(kB, absl::OkStatus());
  EXPECT_FALSE(search.OnCallFailed(kA, kBroken));
  EXPECT_FALSE(search.OnCallFailed(kB, absl::AbortedError("unknown session")));
  EXPECT_FALSE(search.OnCallFailed(kB, absl::OkStatus()));
  EXPECT_TRUE(search.OnCallFailed(kB, kBroken));
  EXPECT_FALSE(search.OnCallFailed(kB, kBroken));  // the second call that fails
}

TEST(LeaderSearch, NamedAddressIsAskedOnce) {
  LeaderSearch search({"a:1", "b:1"});
  EXPECT_EQ(search.OnProbe(kA, NotLeader("x:1")), kX);
  EXPECT_EQ(search.OnProbe(kB, NotLeader("x:1")), std::nullopt);
  EXPECT_EQ(search.OnProbe(kX, NotLeader("a:1")), std::nullopt);
  EXPECT_EQ(Targets(search), "a:1 b:1 x:1 ");
}

TEST(LeaderSearch, HopsAndNamedAddressesAreBounded) {
  LeaderSearch search({"a:1", "b:1"});
  StoreAddress at = kA;
  int hops = 0;
  for (int i = 0; i < 100; ++i) {
    const auto next = search.OnProbe(at, NotLeader(absl::StrCat("hop-", i, ":1")));
    if (!next.has_value()) break;
    at = *next;
    ++hops;
  }
  EXPECT_EQ(hops, kHopsMax);
  for (int round = 0; round < 10; ++round) {
    search.BeginRound();
    search.OnProbe(kA, NotLeader(absl::StrCat("round-", round, ":1")));
  }
  EXPECT_EQ(search.Candidates().size(), 2 + kNamedStoresMax);
}

TEST(LeaderSearch, OnlyPlainAddressesAreTaken) {
  for (const char* plain : {"10.0.0.7:7400", "store-1.store:7400", "[::1]:7400", "a_b.c:1"})
    EXPECT_EQ(PlainAddress(plain), plain);
  const std::string long_name(300, 'a');
  for (const std::string& hostile :
       {std::string("unix:/run/docker.sock"), std::string("unix:///run/x:80"),
        std::string("dns:///store:7400"), std::string("dns://8.8.8.8/store:7400"),
        std::string("xds:///store:80"), std::string("ipv4:10.0.0.1:80,10.0.0.2:80"),
        std::string("http://store:80"), std::string("store"), std::string("store:0"),
        std::string("store:http"), std::string(":7400"), std::string("sto re:7400"),
        std::string("store\n:7400"), std::string("a,b:7400"), std::string("user@store:7400"),
        std::string("store%00:7400"), std::string("[store]:7400x"), long_name + ":7400"}) {
    EXPECT_EQ(PlainAddress(hostile), std::nullopt) << hostile;
    LeaderSearch search({"a:1", "b:1"});
    EXPECT_EQ(search.OnProbe(kA, NotLeader(hostile)), std::nullopt) << hostile;
    EXPECT_EQ(Targets(search), "a:1 b:1 ") << hostile;
  }
}

TEST(LeaderSearch, AddressesOfANameAreCandidatesWithTheName) {
  LeaderSearch search({"store:7400"});
  EXPECT_EQ(search.Names(), std::vector<std::string>{"store"});
  search.OnAddresses("store", {"10.0.0.1"});
  EXPECT_FALSE(search.has_choice());
  EXPECT_TRUE(search.OnCallFailed({"store:7400"}, NotLeader("")));
  search.OnAddresses("store", {"10.0.0.1", "fd00::2"});
  const std::vector<StoreAddress> both = {{"10.0.0.1:7400", "store:7400"},
                                          {"[fd00::2]:7400", "store:7400"}};
  EXPECT_EQ(search.Candidates(), both);
  search.OnProbe(both[1], absl::OkStatus());
  EXPECT_EQ(search.current(), both[1]);
  // Pods come back with other addresses.
  search.OnCallFailed(both[1], kBroken);
  search.OnAddresses("store", {"10.0.0.3", "10.0.0.4"});
  EXPECT_EQ(Targets(search), "10.0.0.3:7400 10.0.0.4:7400 ");
}

TEST(LeaderSearch, ConfiguredAddressIsNotALookup) {
  EXPECT_TRUE(LeaderSearch({"10.0.0.1:1", "[::1]:2"}).Names().empty());
  EXPECT_FALSE(LeaderSearch({"10.0.0.1:1"}).can_doubt());
  EXPECT_TRUE(LeaderSearch({"store:1"}).can_doubt());
}

TEST(LeaderSearch, DoubtLeadsToAnotherLeaderOnly) {
  LeaderSearch search({"a:1", "b:1"});
  search.OnProbe(kA, absl::OkStatus());
  search.Doubt();
  EXPECT_EQ(search.current(), kA);  // calls still go there
  search.OnProbe(kB, NotLeader("a:1"));
  EXPECT_EQ(search.current(), kA);
  EXPECT_TRUE(search.doubting());
  search.OnProbe(kB, absl::OkStatus());
  EXPECT_EQ(search.current(), kB);
  EXPECT_FALSE(search.doubting());
}

TEST(LeaderSearch, StoreThatIsHeardAgainIsTrusted) {
  LeaderSearch search({"a:1", "b:1"});
  search.OnProbe(kA, absl::OkStatus());
  search.Doubt();
  search.Trust();
  search.OnProbe(kB, absl::OkStatus());
  EXPECT_EQ(search.current(), kA);
}

TEST(LeaderSearch, ErrorNamesEachCandidateAndItsAnswer) {
  LeaderSearch search({"a:1", "b:1"});
  search.OnProbe(kA, NotLeader(""));
  const absl::Status none = search.NoLeader();
  EXPECT_TRUE(absl::IsUnavailable(none));
  EXPECT_EQ(none.message(),
            "no store leads: a:1: not the leader; the leader is at []; b:1: no answer");
}

v1::StoreReplica* AddReplica(v1::StoreStatus& status, const std::string& id, int64_t row,
                             int64_t seconds_ago) {
  v1::StoreReplica* replica = status.mutable_replication()->add_replicas();
  replica->set_store_id(id);
  replica->set_role(v1::StoreReplica::FOLLOWER);
  replica->set_applied_seq(row);
  replica->mutable_reported_ago()->set_seconds(seconds_ago);
  return replica;
}

TEST(JoinStatuses, EachReplicaIsAsItLastReportedItself) {
  v1::StoreStatus a, b;
  a.mutable_replication()->set_epoch(3);
  AddReplica(a, "a", 20, 0);
  AddReplica(a, "b", 5, 60);
  a.mutable_replication()->add_log_problems("no standby");
  b.mutable_replication()->set_epoch(2);
  AddReplica(b, "a", 10, 60);
  AddReplica(b, "b", 15, 0)->set_problem("refuses");
  b.mutable_replication()->add_log_problems("no standby");
  b.mutable_replication()->add_log_problems("no answer");
  const auto joined = JoinStatuses({{kB, b}, {kX, absl::UnavailableError("refused")}, {kA, a}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  const v1::StoreReplication& log = joined->replication();
  EXPECT_EQ(log.epoch(), 3);
  ASSERT_EQ(log.replicas_size(), 3);
  EXPECT_EQ(log.replicas(0).applied_seq(), 20);
  EXPECT_EQ(log.replicas(1).applied_seq(), 15);
  EXPECT_EQ(log.replicas(1).problem(), "refuses");
  EXPECT_EQ(log.replicas(2).store_id(), "");
  EXPECT_EQ(log.replicas(2).address(), kX.target);
  EXPECT_EQ(log.replicas(2).problem(), "does not answer: refused");
  EXPECT_EQ(log.log_problems_size(), 2);
}

TEST(JoinStatuses, WithoutAnAnswerTheErrorStays) {
  const auto joined = JoinStatuses({{kA, kBroken}, {kB, absl::UnavailableError("refused")}});
  EXPECT_EQ(joined.status(), kBroken);
}

TEST(JoinStatuses, StatusIsOfALeaderThatLivesAndHasNoProblem) {
  v1::StoreStatus status;
  EXPECT_TRUE(OfLeader(status));  // not replicated
  v1::StoreReplica* replica = AddReplica(status, "a", 1, 0);
  EXPECT_FALSE(OfLeader(status));
  replica->set_role(v1::StoreReplica::LEADER);
  EXPECT_TRUE(OfLeader(status));
  replica->mutable_reported_ago()->set_seconds(10);
  EXPECT_FALSE(OfLeader(status));
  replica->mutable_reported_ago()->set_seconds(0);
  replica->set_problem("the log has acknowledged nothing for 9s");
  EXPECT_FALSE(OfLeader(status));
}

}  // namespace leader_search_test
}  // namespace escapement::kv
