// escctl and a platform that requires credentials: from the first key to a revoked one.

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/secrets/sealed_value.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace escctl_access_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

class EscctlAccessTest : public EscctlTest {
 protected:
  void SetUp() override {
    environment_ = {"ESCAPEMENT_CONFIG_DIR=" + folder_ + "/config"};
    admin_ = folder_ + "/admin.key";
    const Said made = Run({"admin", "bootstrap", "--key-file", admin_});
    ASSERT_EQ(made.exit_code, 0) << made.words;
    EXPECT_EQ(made.data, "");
    EXPECT_THAT(made.words, HasSubstr("--bootstrap_key_file=" + admin_));
    StartPlatform({"--require_credentials", "--bootstrap_key_file=" + admin_});
    AwaitKey(admin_);
  }

  // Runs the command with the key of this file.
  Said As(const std::string& key_file, Words command) {
    command.insert(command.begin(), {"--key-file", key_file});
    return Run(std::move(command));
  }
  nlohmann::json JsonAs(const std::string& key_file, Words command) {
    command.insert(command.begin(), {"--key-file", key_file});
    return Json(std::move(command));
  }
  // Repeats the command until its words or data have `text`. Instances learn of keys within five
  // seconds.
  Said Await(const std::string& key_file, const Words& command, const std::string& text) {
    const absl::Time deadline = absl::Now() + absl::Seconds(15);
    Said said;
    do {
      said = As(key_file, command);
    } while (!absl::StrContains(said.data + said.words, text) && absl::Now() < deadline);
    EXPECT_THAT(said.data + said.words, HasSubstr(text));
    return said;
  }
  void AwaitKey(const std::string& key_file) { Await(key_file, {"tenant", "list"}, "NAME"); }

  // Makes a key whose file is returned, and waits until the platform knows it.
  std::string NewKey(const std::string& tenant, const std::string& role) {
    const std::string file = absl::StrCat(folder_, "/", tenant, "-", role, ".key");
    const Said made =
        As(admin_, {"key", "create", "--tenant", tenant, "--role", role, "--key-file", file});
    EXPECT_EQ(made.exit_code, 0) << made.words;
    EXPECT_THAT(made.data + made.words, Not(HasSubstr(SecretOf(file))));
    AwaitKey(file);
    return file;
  }

  static std::string ContentOf(const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  // The part of the key that must stay hidden.
  static std::string SecretOf(const std::string& key_file) {
    const std::string key = ContentOf(key_file);
    EXPECT_EQ(key.size(), std::string("esc__\n").size() + 16 + 64) << key_file;
    return key.substr(std::string("esc__").size() + 16, 64);
  }
  static std::string IdOf(const std::string& key_file) { return ContentOf(key_file).substr(4, 16); }

  static void ExpectOneLine(const Said& said, int exit_code, const std::string& part) {
    EXPECT_EQ(said.exit_code, exit_code) << said.words;
    EXPECT_THAT(said.words, HasSubstr(part));
    EXPECT_EQ(said.words.find('\n'), said.words.size() - 1) << said.words;
  }

  std::string admin_;
};

TEST_F(EscctlAccessTest, KeysOfATenantLiveFromBootstrapToRevoke) {
  EXPECT_EQ(As(admin_, {"tenant", "create", "team-a", "--display-name", "Team A"}).exit_code, 0);
  const std::string editor = NewKey("team-a", "EDITOR");
  const std::string viewer = NewKey("team-a", "viewer");
  const Words create = {"schedule", "create", "s", "--every", "1h", "--http", "http://127.0.0.1:1/",
                        "--tenant", "team-a"};
  EXPECT_EQ(As(editor, create).exit_code, 0);
  EXPECT_EQ(JsonAs(viewer, {"schedule", "list", "--tenant", "team-a"}).size(), 1u);
  EXPECT_EQ(JsonAs(viewer, {"tenant", "list"}).size(), 1u);
  ExpectOneLine(As(viewer, {"schedule", "delete", "s", "--tenant", "team-a"}), 4,
                "DeleteSchedule needs the role EDITOR; the "
                "caller has VIEWER; --key-file or --context chooses a key with another role");
  ExpectOneLine(As(editor, {"tenant", "create", "team-b"}), 4, "PERMISSION_DENIED");
  // Other tenants do not exist for this key.
  ExpectOneLine(As(editor, {"schedule", "list", "--tenant", "default"}), 3,
                "which is for tenants/team-a");

  const Said audit = Await(admin_, {"audit", "list", "--tenant", "team-a"}, "ROLE_TOO_LOW");
  EXPECT_THAT(audit.data,
              AllOf(HasSubstr("key/" + IdOf(editor) + "  EDITOR"), HasSubstr("CreateSchedule"),
                    HasSubstr("PERMISSION_DENIED (ROLE_TOO_LOW)")));
  // The newest first.
  EXPECT_LT(audit.data.find("DeleteSchedule"), audit.data.find("CreateSchedule"));
  EXPECT_EQ(JsonAs(admin_, {"audit", "list", "--tenant", "team-a", "--filter",
                            "resource = \"tenants/team-a/schedules/*\" AND result = OK"})
                .size(),
            1u);
  EXPECT_EQ(JsonAs(admin_, {"audit", "list", "--all-tenants", "--limit", "1"}).size(), 1u);
  ExpectOneLine(As(editor, {"audit", "list", "--tenant", "team-a"}), 4, "PERMISSION_DENIED");

  const absl::Time revoked = absl::Now();
  EXPECT_THAT(As(admin_, {"key", "revoke", IdOf(editor), "--tenant", "team-a"}).data,
              HasSubstr(IdOf(editor)));
  const Said refused = Await(editor, {"schedule", "list", "--tenant", "team-a"}, "is revoked");
  EXPECT_LT(absl::Now() - revoked, absl::Seconds(5));
  ExpectOneLine(refused, 4,
                "UNAUTHENTICATED: the API key is revoked; it is from --key-file " + editor +
                    ", and an admin makes another one");
}

TEST_F(EscctlAccessTest, KeysAreMadeShownAndRefused) {
  const auto made = JsonAs(admin_, {"key", "create", "--role", "operator", "--expires-in", "30d",
                                    "--display-name", "ops"});
  const std::string secret = made["secret"];
  EXPECT_THAT(secret, HasSubstr("esc_"));
  EXPECT_TRUE(made.contains("expireTime"));
  const Said shown = As(admin_, {"key", "create", "--role", "VIEWER", "--all-tenants"});
  EXPECT_THAT(shown.data, AllOf(HasSubstr("tenants/-/keys/"), HasSubstr("esc_")));
  EXPECT_EQ(JsonAs(admin_, {"key", "list", "--all-tenants"}).size(), 2u);
  const auto listed = JsonAs(admin_, {"key", "list"});
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["displayName"], "ops");
  EXPECT_FALSE(listed[0].contains("secret"));
  const std::string name = listed[0]["name"];
  EXPECT_FALSE(JsonAs(admin_, {"key", "get", name}).contains("secret"));
  EXPECT_EQ(As(admin_, {"key", "get", IdOf(admin_), "--all-tenants"}).exit_code, 0);
  EXPECT_TRUE(JsonAs(admin_, {"key", "revoke", name}).contains("revokeTime"));

  // A file that exists is refused before a key is made, and stays.
  ExpectOneLine(As(admin_, {"key", "create", "--role", "VIEWER", "--key-file", admin_}), 2,
                "exists already");
  ExpectOneLine(As(admin_, {"key", "create", "--role", "VIEWER", "--expires-in", "soon"}), 2,
                "--expires-in: 'soon' is not a length of time");
  ExpectOneLine(As(admin_, {"key", "create", "--role", "SERVICE"}), 2, "--role");
  EXPECT_EQ(As(admin_,
               {"key", "create", "--role", "VIEWER", "--expires-in", "1d", "--expire-time", "+1h"})
                .exit_code,
            2);
  EXPECT_EQ(JsonAs(admin_, {"key", "list"}).size(), 1u);
  const std::string unused = folder_ + "/unused.key";
  EXPECT_EQ(
      As(admin_, {"key", "create", "--tenant", "none", "--role", "VIEWER", "--key-file", unused})
          .exit_code,
      3);
  EXPECT_FALSE(std::ifstream(unused).is_open());
  struct stat info = {};
  ASSERT_EQ(stat(admin_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Run({"admin", "bootstrap", "--key-file", admin_}).exit_code, 2);
  const Said printed = Run({"admin", "bootstrap", "--key-file", folder_ + "/two", "--print"});
  EXPECT_EQ(printed.data, ContentOf(folder_ + "/two"));
}

TEST_F(EscctlAccessTest, SecretKeysAreMadeWithoutTheRepository) {
  const std::string path = folder_ + "/own.keys";
  EXPECT_EQ(Run({"admin", "secret-key", "--key-file", path}).exit_code, 0);
  const auto made = KeyRing::Load(path);
  ASSERT_TRUE(made.ok()) << made.status();
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Run({"admin", "secret-key", "--key-file", path}).exit_code, 2);  // it is not replaced
  const Said printed = Run({"admin", "secret-key"});
  EXPECT_EQ(printed.exit_code, 0);
  const auto other = KeyRing::Parse(printed.data, "printed");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->current().bytes.Equals(made->current().bytes));
}

TEST_F(EscctlAccessTest, TenantsAndQuotasAreChanged) {
  EXPECT_EQ(As(admin_, {"tenant", "create", "team-a", "--max-schedules", "1"}).exit_code, 0);
  EXPECT_EQ(JsonAs(admin_, {"tenant", "get", "team-a"})["quotas"]["maxSchedules"], "1");
  EXPECT_EQ(JsonAs(admin_, {"tenant", "list"}).size(), 2u);
  EXPECT_THAT(As(admin_, {"tenant", "get"}).data, HasSubstr("tenants/default"));
  const auto create = [&](const std::string& id) {
    return As(admin_, {"schedule", "create", id, "--every", "1h", "--http", "http://127.0.0.1:1/",
                       "--tenant", "team-a"});
  };
  // A new tenant with a quota can create once its schedules have been counted.
  const absl::Time deadline = absl::Now() + absl::Seconds(15);
  Said created = create("a");
  while (absl::StrContains(created.words, "being counted") && absl::Now() < deadline)
    created = create("a");
  EXPECT_EQ(created.exit_code, 0) << created.words;
  ExpectOneLine(create("b"), 1, "max_schedules is 1");
  const Said quotas = As(admin_, {"quota", "set", "team-a", "--max-schedules", "2",
                                  "--max-requests-per-second", "1000.5"});
  EXPECT_THAT(quotas.data, AllOf(HasSubstr("max-schedules            1     2"),
                                 HasSubstr("max-requests-per-second  -     1000.5")));
  EXPECT_EQ(As(admin_, {"quota", "get", "--tenant", "team-a"}).data, quotas.data);
  EXPECT_EQ(JsonAs(admin_, {"quota", "get", "team-a"})["scheduleCount"], "1");
  Await(admin_, {"tenant", "update", "team-a", "--state", "suspended"}, "SUSPENDED");
  ExpectOneLine(create("c"), 1, "FAILED_PRECONDITION");
  EXPECT_EQ(As(admin_, {"tenant", "update", "team-a"}).exit_code, 2);
  EXPECT_EQ(As(admin_, {"quota", "set", "team-a", "--max-schedules", "-1"}).exit_code, 2);
  ExpectOneLine(As(admin_, {"tenant", "delete", "team-a"}), 1, "FAILED_PRECONDITION");
}

// Each problem is one line that says what to do, and has no secret in it.
TEST_F(EscctlAccessTest, MissingAndWrongKeysAreOneLine) {
  const Said anonymous = Run({"schedule", "list"});
  ExpectOneLine(anonymous, 4, "UNAUTHENTICATED: the call needs credentials");
  EXPECT_THAT(anonymous.words, HasSubstr("; --key-file gives a file with one"));
  const std::string wrong = folder_ + "/wrong.key";
  ASSERT_EQ(Run({"admin", "bootstrap", "--key-file", wrong}).exit_code, 0);
  ExpectOneLine(As(wrong, {"schedule", "list"}), 4,
                "UNAUTHENTICATED: there is no such API key; the key is from --key-file " + wrong);
  ExpectOneLine(As(folder_ + "/none", {"schedule", "list"}), 2, "/none: cannot be read");
  std::ofstream(folder_ + "/two.key") << ContentOf(admin_) << ContentOf(wrong);
  ExpectOneLine(As(folder_ + "/two.key", {"schedule", "list"}), 2, "must hold one API key");
  const Said pasted = As(ContentOf(admin_).substr(0, 85), {"schedule", "list"});
  ExpectOneLine(pasted, 2, "give the path of a file that holds the key");
  EXPECT_THAT(pasted.words, Not(HasSubstr(SecretOf(admin_))));
  const Said stray = As(admin_, {"schedule", "list", ContentOf(admin_).substr(0, 85)});
  EXPECT_EQ(stray.exit_code, 2);
  EXPECT_THAT(stray.words, Not(HasSubstr(SecretOf(admin_))));
}

TEST_F(EscctlAccessTest, KeyLeavesTheMachineOnlyWithTlsOrConsent) {
  const Words far = {"--server", "192.0.2.1:7410", "--timeout", "0.2", "schedule", "list"};
  ExpectOneLine(As(admin_, far), 2, "give --tls-ca, or --insecure-key");
  Words consented = far;
  consented.push_back("--insecure-key");
  EXPECT_EQ(As(admin_, consented).exit_code, 5);
  EXPECT_EQ(Run(far).exit_code, 5);
}

TEST_F(EscctlAccessTest, FlagThenEnvironmentThenContextGiveTheKey) {
  const std::string server = platform_->grpc_address("standalone");
  environment_ = {"ESCAPEMENT_CONFIG_DIR=" + folder_ + "/config"};
  const std::string none = folder_ + "/none.key";
  ASSERT_EQ(Run({"admin", "bootstrap", "--key-file", none}).exit_code, 0);
  EXPECT_EQ(Run({"config", "set-context", "prod", "--server", server, "--key-file", admin_}).words,
            "context prod is saved\n");
  EXPECT_EQ(Run({"config", "use-context", "prod"}).exit_code, 0);
  EXPECT_THAT(ContentOf(folder_ + "/config/escctl.yaml"),
              AllOf(HasSubstr("/admin.key"), Not(HasSubstr(SecretOf(admin_)))));
  EXPECT_THAT(Json({"config", "get-contexts"})[0]["keyFile"].dump(), HasSubstr("/admin.key"));
  EXPECT_EQ(
      Run({"config", "set-context", "bad", "--server", server, "--key-file", "none"}).exit_code, 2);
  EXPECT_EQ(Run({"schedule", "list"}).exit_code, 0);
  // The key belongs to the context's server.
  EXPECT_EQ(Run({"schedule", "list", "--server", server}).exit_code, 4);
  environment_.push_back("ESCAPEMENT_KEY=" + ContentOf(none));
  ExpectOneLine(Run({"schedule", "list"}), 4, "the key is from ESCAPEMENT_KEY");
  environment_.push_back("ESCAPEMENT_KEY_FILE=" + admin_);
  EXPECT_EQ(Run({"schedule", "list"}).exit_code, 0);
  EXPECT_EQ(As(none, {"schedule", "list"}).exit_code, 4);
}

TEST_F(EscctlAccessTest, DoctorSaysWhatAKeyCannotSee) {
  EXPECT_EQ(As(admin_, {"tenant", "create", "team-a", "--max-schedules", "1"}).exit_code, 0);
  const std::string editor = NewKey("team-a", "EDITOR");
  EXPECT_EQ(As(editor, {"schedule", "create", "s", "--every", "1h", "--http", "http://127.0.0.1:1/",
                        "--tenant", "team-a"})
                .exit_code,
            0);
  const std::string full = "it has 1 of at most 1 schedules";
  const Said all = As(admin_, {"doctor"});
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.data, AllOf(HasSubstr(full), Not(HasSubstr("the store:"))));
  const Said one = As(editor, {"--tenant", "team-a", "doctor"});
  EXPECT_EQ(one.exit_code, 1);
  EXPECT_THAT(one.data, AllOf(HasSubstr(full), HasSubstr("not checked"), HasSubstr("the store: "),
                              HasSubstr("chooses a key")));
  ExpectOneLine(Run({"doctor"}), 4, "UNAUTHENTICATED");
}

TEST_F(EscctlAccessTest, NoOutputHasASecret) {
  const std::string editor = NewKey("default", "EDITOR");
  environment_.push_back("ESCAPEMENT_KEY=" + ContentOf(editor));
  for (Words command : std::vector<Words>{{"key", "list"},
                                          {"key", "get", IdOf(editor)},
                                          {"key", "revoke", IdOf(editor)},
                                          {"key", "list", "--all-tenants"},
                                          {"audit", "list"},
                                          {"audit", "list", "--all-tenants"},
                                          {"tenant", "list"},
                                          {"config", "get-contexts"},
                                          {"schedule", "list"},
                                          {"schedule", "list", "--tenant", "no such"}}) {
    for (const char* format : {"table", "json", "yaml"}) {
      command.insert(command.end(), {"-o", format});
      for (const Said& said : {Run(command), As(admin_, command)}) {
        EXPECT_THAT(said.data + said.words, Not(HasSubstr(SecretOf(editor))));
        EXPECT_THAT(said.data + said.words, Not(HasSubstr(SecretOf(admin_))));
      }
      command.resize(command.size() - 2);
    }
  }
  for (const Words& command : std::vector<Words>{
           {"--help"}, {"key", "create", "--help"}, {"man"}, {"completion", "bash"}}) {
    const Said said = As(admin_, command);
    EXPECT_EQ(said.exit_code, 0);
    EXPECT_THAT(said.data + said.words, Not(HasSubstr(SecretOf(editor))));
  }
  // Neither has a log of the platform.
  EXPECT_THAT(ContentOf(platform_->log("standalone")),
              AllOf(Not(HasSubstr(SecretOf(editor))), Not(HasSubstr(SecretOf(admin_)))));
}

}  // namespace escctl_access_test
}  // namespace escapement::integration
