// ucx_rounds ROUNDS same|mixed [async] [plain-importer]: memory goes from one process to another by UCX,
// whose transport cuda_ipc exports a block, keeps its registration, and keeps the importer's mapping open
// over many lives of the block's address. Each round allocates, stamps, sends, verifies there, and frees.
// Prints the wrong words of all rounds; stderr tells how many handles were exported and opened. Two
// processes, one thread each. Needs the headers of UCX (any of 1.15 to 1.22), and any such library at run
// time.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <chrono>

#include "tests/gpu/rounds.cuh"

namespace {

using namespace programs;

struct transport {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;

  transport() {
    ucp_config_t* config = nullptr;
    REQUIRE(ucp_config_read(nullptr, nullptr, &config));
    ucp_params_t wish{};
    wish.field_mask = UCP_PARAM_FIELD_FEATURES;
    wish.features = UCP_FEATURE_TAG;
    REQUIRE(ucp_init(&wish, config, &context));
    ucp_config_release(config);
    ucp_worker_params_t kind{};
    kind.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    kind.thread_mode = UCS_THREAD_MODE_SINGLE;
    REQUIRE(ucp_worker_create(context, &kind, &worker));
  }

  int wait(ucs_status_ptr_t request) const {
    if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) ucp_worker_progress(worker);
    ucp_request_free(request);
    return status;
  }
};

void put(int to, const void* data, std::size_t bytes) {
  REQUIRE_CODE(::write(to, data, bytes), bytes);
}

void get(int from, void* data, std::size_t bytes) {
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got = ::read(from, static_cast<char*>(data) + have, bytes - have);
    if (got <= 0) std::_Exit(4);
    have += static_cast<std::size_t>(got);
  }
}

int send(const rounds::options& how, int peer) {
  REQUIRE(cudaFree(nullptr));
  transport here;
  std::size_t length = 0;
  get(peer, &length, sizeof length);
  std::vector<char> address(length);
  get(peer, address.data(), length);
  ucp_ep_params_t to{};
  to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  to.address = reinterpret_cast<ucp_address_t*>(address.data());
  ucp_ep_h end = nullptr;
  REQUIRE(ucp_ep_create(here.worker, &to, &end));
  rounds::senders_blocks blocks(how);
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned round = 0; round < how.count; ++round) {
    void* const block = blocks.stamped(round);
    ucp_request_param_t none{};
    REQUIRE(here.wait(ucp_tag_send_nbx(end, block, how.size_of(round), round, &none)));
    char done = 0;
    get(peer, &done, 1);  // verified
    blocks.sent(round);
  }
  unsigned long long wrong = 0;
  get(peer, &wrong, sizeof wrong);
  blocks.end();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  std::printf("%u rounds, %llu wrong words\ntime: a round %.0f us\n", how.count, wrong,
              took.count() / how.count);
  rounds::tell("exporter");
  return wrong != 0;
}

void receive(const rounds::options& how, int peer) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  REQUIRE(cudaFree(nullptr));
  transport here;
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  REQUIRE(ucp_worker_get_address(here.worker, &address, &length));
  put(peer, &length, sizeof length);
  put(peer, address, length);
  rounds::receivers_block blocks(how);
  for (unsigned round = 0; round < how.count; ++round) {
    ucp_request_param_t none{};
    REQUIRE(here.wait(
        ucp_tag_recv_nbx(here.worker, blocks.empty(round), how.size_of(round), round, ~ucp_tag_t{0}, &none)));
    blocks.received(round);
    put(peer, "d", 1);
  }
  const unsigned long long wrong = blocks.end();
  put(peer, &wrong, sizeof wrong);
  rounds::tell("importer");
}

}  // namespace

int main(int count, char** arguments) {
  rounds::options how;
  bool plain_importer = false;
  int peer = -1;
  if (count > 1) how.count = static_cast<unsigned>(std::atoi(arguments[1]));
  for (int i = 2; i < count; ++i) {
    const std::string word = arguments[i];
    how.mixed |= word == "mixed";
    how.async |= word == "async";
    plain_importer |= word == "plain-importer";
    if (word == "importer") peer = std::atoi(arguments[i + 1]);
  }
  if (peer >= 0) {
    receive(how, peer);
    return 0;
  }
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  if (fork() == 0) {
    close(ends[0]);
    if (plain_importer) unsetenv("LD_PRELOAD");
    std::vector<char*> same(arguments, arguments + count);
    std::string number = std::to_string(ends[1]);
    std::string word = "importer";
    same.insert(same.end(), {word.data(), number.data(), nullptr});
    execv("/proc/self/exe", same.data());
    std::_Exit(5);
  }
  close(ends[1]);
  const int code = send(how, ends[0]);
  int status = 0;
  wait(&status);
  return code != 0 || status != 0;
}
