// gpumem run, check and report as a user sees them: exit codes, what is printed, and what a killed program
// leaves.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

struct outcome {
  int code = -1;
  std::string text;  // stdout and stderr
};

class cli : public testing::Test {
 protected:
  cli() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("GPUMEM_STATE_DIR", (folder_ + "/state").c_str(), 1);
    ::unsetenv("GPUMEM_CONFIG");
    ::unsetenv("LD_PRELOAD");
  }
  ~cli() override { std::filesystem::remove_all(folder_); }

  static outcome shell(std::string const& command) {
    outcome result;
    FILE* const pipe = ::popen(("exec 2>&1; " + command).c_str(), "r");
    char part[4096];
    while (std::size_t const got = std::fread(part, 1, sizeof part, pipe)) {
      result.text.append(part, got);
    }
    int const status = ::pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
  }
  static outcome gpumem(std::string const& arguments) { return shell(GPUMEM_BIN "/gpumem " + arguments); }
  static bool has(outcome const& of, char const* text) { return of.text.find(text) != std::string::npos; }

  std::size_t pages() const {
    std::error_code none;
    std::filesystem::directory_iterator const found(folder_ + "/state", none);
    return static_cast<std::size_t>(std::distance(begin(found), end(found)));
  }
  std::string write(std::string const& name, std::string const& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  std::string folder_ = "/tmp/gpumem_cli_XXXXXX";
};

// --- run ---

TEST_F(cli, run_gives_the_programs_own_exit_code) {
  EXPECT_EQ(gpumem("run -q -- sh -c 'exit 7'").code, 7);
  EXPECT_EQ(gpumem("run -q true").code, 0);
  EXPECT_EQ(gpumem("run -q -- sh -c 'kill -TERM $$'").code, 128 + SIGTERM);
  EXPECT_EQ(gpumem("run -q /nosuch/program").code, 127);
  EXPECT_EQ(gpumem("run -q nosuchprogram").code, 127);
  EXPECT_EQ(gpumem("run -q /etc").code, 126);
  EXPECT_EQ(gpumem("run").code, 125);
  EXPECT_EQ(gpumem("run --nosuch true").code, 125);
}

TEST_F(cli, run_is_silent_when_quiet_and_passes_arguments_untouched) {
  outcome const echo = gpumem("run -q echo -c --help -q");
  EXPECT_EQ(echo.text, "-c --help -q\n");
  EXPECT_EQ(gpumem("run -q -- echo -- x").text, "-- x\n");
  outcome const loud = gpumem("run true");
  EXPECT_TRUE(has(loud, "gpumem: running true with the built-in configuration\n")) << loud.text;
  EXPECT_TRUE(has(loud, "gpumem: true exited with 0\n")) << loud.text;
}

TEST_F(cli, run_preloads_first_in_an_existing_list) {
  outcome const shown =
      shell("LD_PRELOAD=libm.so.6 " GPUMEM_BIN "/gpumem run -q printenv LD_PRELOAD GPUMEM_RUN_ID");
  EXPECT_TRUE(shown.text.starts_with(GPUMEM_BIN "/libgpumem.so:libm.so.6\n")) << shown.text;
}

TEST_F(cli, a_clean_program_reports_for_itself) {
  outcome const result = shell("COUNTING_PRELOAD=1 " GPUMEM_BIN "/gpumem run -q true");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result, "status      exit 0, clean")) << result.text;
  EXPECT_EQ(result.text.find("=== gpumem"), result.text.rfind("=== gpumem"));
  EXPECT_EQ(pages(), 0u);
}

TEST_F(cli, run_reports_for_a_killed_program) {
  outcome const result = shell(GPUMEM_BIN "/gpumem run -q -- env COUNTING_PRELOAD=1 sh -c 'kill -9 $$'");
  EXPECT_EQ(result.code, 128 + SIGKILL);
  EXPECT_TRUE(has(result, "status      killed by SIGKILL after 0:00.")) << result.text;
  EXPECT_TRUE(has(result, "written by gpumem run from the state page; counters complete")) << result.text;
  EXPECT_TRUE(has(result, "1,000")) << result.text;
  EXPECT_EQ(pages(), 0u);
}

TEST_F(cli, run_reports_for_a_killed_descendant) {
  outcome const result =
      shell(GPUMEM_BIN "/gpumem run -q -- sh -c 'COUNTING_PRELOAD=1 sh -c \"kill -9 \\$\\$\"; exit 3'");
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result, "ended in an unknown way")) << result.text;
  EXPECT_TRUE(has(result, "1,000")) << result.text;
  EXPECT_EQ(pages(), 0u);
}

TEST_F(cli, run_hands_signals_on) {
  outcome const result = shell(GPUMEM_BIN
                               "/gpumem run -q -- sh -c 'trap \"echo got it; exit 5\" USR1; "
                               "kill -USR1 $PPID; while :; do sleep 0.05; done'");
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(result.text, "got it\n");
}

TEST_F(cli, run_starts_nothing_with_a_bad_configuration) {
  std::string const bad = write("bad.toml", "version = 1\n[route]\ndevice = [\"pol\", \"cuda\"]\n");
  outcome const result = gpumem("run -c " + bad + " touch " + folder_ + "/started");
  EXPECT_EQ(result.code, 125);
  EXPECT_TRUE(has(result, "the program was not started")) << result.text;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/started"));
}

// --- report ---

TEST_F(cli, report_finds_what_a_plain_preload_left) {
  shell("LD_PRELOAD=" GPUMEM_BIN "/libgpumem.so COUNTING_PRELOAD=1 sh -c 'kill -9 $$'");
  ASSERT_EQ(pages(), 1u);
  outcome const list = gpumem("report --list");
  EXPECT_TRUE(has(list, "killed")) << list.text;
  outcome const last = gpumem("report --last");
  EXPECT_EQ(last.code, 0);
  EXPECT_TRUE(has(last, "written by gpumem report from the state page")) << last.text;
  outcome const json = gpumem("report --json");
  EXPECT_TRUE(json.text.starts_with("{\n \"schema\": 2,")) << json.text;
  outcome const again = gpumem("report " + write("saved.json", json.text));
  EXPECT_EQ(again.text, last.text);
  EXPECT_EQ(pages(), 1u);
}

TEST_F(cli, report_removes_old_pages_of_ended_processes_only) {
  shell("LD_PRELOAD=" GPUMEM_BIN "/libgpumem.so COUNTING_PRELOAD=1 sh -c 'kill -9 $$'");
  ASSERT_EQ(pages(), 1u);
  shell("touch -d '6 days ago' " + folder_ + "/state/*");
  gpumem("report --list");
  EXPECT_EQ(pages(), 1u);
  shell("touch -d '8 days ago' " + folder_ + "/state/*");
  gpumem("report --list");
  EXPECT_EQ(pages(), 0u);
}

TEST_F(cli, report_shows_a_live_process) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::setenv("LD_PRELOAD", GPUMEM_BIN "/libgpumem.so", 1);
    ::setenv("COUNTING_PRELOAD", "1", 1);
    ::execlp("sleep", "sleep", "60", nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 500 && pages() == 0; ++i) ::usleep(10'000);
  ::usleep(50'000);
  outcome const live = gpumem("report --pid " + std::to_string(child));
  EXPECT_EQ(live.code, 0);
  EXPECT_TRUE(has(live, "running, for 0:0")) << live.text;
  EXPECT_EQ(gpumem("report --last").code, 2);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(cli, report_refuses_what_it_cannot_read) {
  EXPECT_EQ(gpumem("report " + folder_ + "/absent").code, 2);
  EXPECT_EQ(gpumem("report " + write("cut.json", "{\"schema\": 2, \"dev")).code, 2);
  EXPECT_EQ(gpumem("report " + write("other.json", "{\"schema\": 99}")).code, 2);
  EXPECT_EQ(gpumem("report " + write("source.cpp", "int main() {}")).code, 2);
  EXPECT_EQ(gpumem("report --pid 1").code, 2);
  EXPECT_EQ(gpumem("report --text --json").code, 2);
}

TEST_F(cli, explain_knows_the_terms_and_near_ones) {
  EXPECT_TRUE(has(gpumem("report --explain pending"), "not known"));
  EXPECT_TRUE(has(gpumem("report --explain"), "state page"));
  outcome const near = gpumem("report --explain pendng");
  EXPECT_EQ(near.code, 2);
  EXPECT_TRUE(has(near, "did you mean \"pending\"?")) << near.text;
}

// --- check, help ---

TEST_F(cli, check_shows_the_tree_or_all_errors) {
  std::string const good = write("good.toml",
                                 "version = 1\n[route]\ndevice = [\"pool\", \"cuda\"]\n"
                                 "[resource.pool]\ninitial_pool_size = \"1 GiB\"\n");
  outcome const tree = gpumem("check " + good);
  EXPECT_EQ(tree.code, 0);
  EXPECT_TRUE(has(tree, "initial_pool_size = 1 GiB")) << tree.text;
  EXPECT_TRUE(has(tree, "\n          cuda\n")) << tree.text;
  EXPECT_EQ(gpumem("check").code, 0);
  std::string const bad = write("bad.toml", "version = 1\n[route]\ndevice = [\"pol\", \"cuda\"]\n");
  EXPECT_EQ(gpumem("check " + bad).code, 2);
  std::string const unused =
      write("unused.toml", "version = 1\n[route]\ndevice = [\"cuda\"]\n[resource.pool]\n");
  EXPECT_EQ(gpumem("check " + unused).code, 0);
  EXPECT_EQ(gpumem("check --strict " + unused).code, 1);
}

TEST_F(cli, check_counts_traps_as_warnings) {
  std::string const trap = write("trap.toml",
                                 "version = 1\n[route]\ndevice = [\"pool\", \"cuda\"]\n"
                                 "[resource.pool]\nmaximum_pool_size = \"90 GiB\"\n");
  EXPECT_EQ(gpumem("check --device-memory '80 GiB' " + trap).code, 0);
  EXPECT_EQ(gpumem("check --strict --device-memory '80 GiB' " + trap).code, 1);
  EXPECT_EQ(gpumem("check --strict --device-memory '90 GiB' " + trap).code, 0);
  outcome const bad = gpumem("check --device-memory much " + trap);
  EXPECT_EQ(bad.code, 2);
  EXPECT_TRUE(has(bad, "error: --device-memory much: ")) << bad.text;
}

TEST_F(cli, check_looks_at_a_program_and_does_not_run_it) {
  outcome const good = gpumem("check -- sh -c 'touch " + folder_ + "/started'");
  EXPECT_EQ(good.code, 0);
  EXPECT_TRUE(has(good, "can be intercepted if it uses CUDA")) << good.text;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/started"));
  outcome const absent = gpumem("check -- nosuchprogram");
  EXPECT_EQ(absent.code, 2);
  EXPECT_TRUE(has(absent, "cannot be intercepted")) << absent.text;
}

TEST_F(cli, help_fits_a_screen_and_ends_with_two_examples) {
  for (char const* verb : {"", "run ", "check ", "report "}) {
    outcome const help = gpumem(std::string(verb) + "--help");
    EXPECT_EQ(help.code, 0);
    EXPECT_LE(std::count(help.text.begin(), help.text.end(), '\n'), 24);
    EXPECT_TRUE(has(help, "Examples:\n  gpumem ")) << help.text;
  }
  EXPECT_TRUE(has(gpumem("--version"), "gpumem 0.1.0\nlibrary " GPUMEM_BIN "/libgpumem.so\n"));
}

TEST_F(cli, near_misses_are_named) {
  EXPECT_TRUE(has(gpumem("report --lst"), "did you mean \"--last\"?") ||
              has(gpumem("report --lst"), "\"--list\"?"));
  EXPECT_TRUE(has(gpumem("chekc x"), "did you mean \"check\"?"));
  EXPECT_TRUE(has(gpumem("run --quite true"), "did you mean \"--quiet\"?"));
  EXPECT_EQ(gpumem("chekc x").code, 2);
}

}  // namespace
