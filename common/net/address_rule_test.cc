#include "common/net/address_rule.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace escapement {
namespace address_rule_test {

TEST(AddressRule, AllowsWhatIsGloballyReachable) {
  const AddressRule rule;
  for (const char* address :
       {"8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.0", "100.63.0.1", "2606:4700::1111",
        "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"}) {
    EXPECT_TRUE(rule.Allows(address)) << address;
  }
}

TEST(AddressRule, RefusesWhatIsNot) {
  const AddressRule rule;
  for (const char* address :
       {"127.0.0.1", "127.255.255.255", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255",
        "192.168.1.1", "100.64.0.1", "169.254.1.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "198.18.0.1", "192.0.2.1", "::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1",
        "fec0::1", "2001:db8::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::1", "2002:a00:1::1",
        // Teredo with 127.0.0.1 as the client.
        "2001:0:1:2:3:4:80ff:fffe", "", "localhost", "127.1", "0x7f.1", "[::1]"}) {
    EXPECT_FALSE(rule.Allows(address)) << address;
  }
}

TEST(AddressRule, AllowsTheRangesOfTheOperator) {
  const auto rule = AddressRule::Allowing({"10.1.0.0/16", "fd12:3456::/33", "192.168.1.7"});
  ASSERT_TRUE(rule.ok()) << rule.status();
  for (const char* address : {"10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "fd12:3456:7fff::1",
                              "192.168.1.7", "8.8.8.8", "64:ff9b::a01:1"}) {
    EXPECT_TRUE(rule->Allows(address)) << address;
  }
  for (const char* address :
       {"10.2.0.0", "10.0.255.255", "fd12:3456:8000::1", "192.168.1.6", "127.0.0.1", "::1"}) {
    EXPECT_FALSE(rule->Allows(address)) << address;
  }
}

TEST(AddressRule, MetadataServicesAreRefusedInEveryCase) {
  const auto rule = AddressRule::Allowing({"0.0.0.0/0", "::/0"});
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_TRUE(rule->Allows("10.0.0.1"));
  EXPECT_TRUE(rule->Allows("fd00::1"));
  EXPECT_TRUE(rule->Allows("169.254.1.1"));
  for (const char* address : {"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
                              "2002:a9fe:a9fe::", "fd00:ec2::254", "100.100.100.200"}) {
    EXPECT_FALSE(rule->Allows(address)) << address;
  }
}

TEST(AddressRule, LoopbackCanBeAllowedAlone) {
  const AddressRule rule = AddressRule::AllowingLoopback();
  EXPECT_TRUE(rule.Allows("127.0.0.1"));
  EXPECT_TRUE(rule.Allows("::1"));
  EXPECT_FALSE(rule.Allows("10.0.0.1"));
  EXPECT_FALSE(rule.Allows("0.0.0.0"));
}

TEST(AddressRule, ReadsSocketAddresses) {
  const AddressRule rule = *AddressRule::Allowing({"127.0.0.1", "::1"});
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.1", &four.sin_addr);
  EXPECT_TRUE(rule.Allows(reinterpret_cast<const sockaddr&>(four)));
  inet_pton(AF_INET, "127.0.0.2", &four.sin_addr);
  EXPECT_FALSE(rule.Allows(reinterpret_cast<const sockaddr&>(four)));
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  inet_pton(AF_INET6, "::1", &six.sin6_addr);
  EXPECT_TRUE(rule.Allows(reinterpret_cast<const sockaddr&>(six)));
  inet_pton(AF_INET6, "::2", &six.sin6_addr);
  EXPECT_FALSE(rule.Allows(reinterpret_cast<const sockaddr&>(six)));
  sockaddr_un local = {};
  local.sun_family = AF_UNIX;
  EXPECT_FALSE(rule.Allows(reinterpret_cast<const sockaddr&>(local)));
}

TEST(AddressRule, RefusesTextsThatAreNoRange) {
  for (const char* text : {"", "10.0.0.0/33", "::1/129", "10.0.0/8", "a", "10.0.0.0/-1",
                           "10.0.0.0/", "10.0.0.0/8/8"}) {
    EXPECT_FALSE(AddressRule::Allowing({text}).ok()) << text;
  }
}

}  // namespace address_rule_test
}  // namespace escapement
