#include "tests/simulation/world/services.h"

#include <utility>

#include "common/tokens/token_door.h"
#include "services/emitter/service/emitter_service.h"
#include "services/handler/service/handler_service.h"
#include "services/master/service/master_service.h"
#include "services/token_manager/service/token_manager_service.h"

namespace escapement::simulation {
namespace {

struct HandlerParts {
  HandlerParts(handler::HandlerOptions options, kv::KvStore& store, Runtime& runtime,
               std::unique_ptr<handler::DeliveryTransport> wire)
      : transport(std::move(wire)), service(std::move(options), store, runtime, *transport) {}
  std::unique_ptr<handler::DeliveryTransport> transport;
  handler::HandlerService service;
};

TokenDoor::Options DoorOptions(sim::SimProcess& process, const std::string& instance,
                               LocalGrants* local) {
  TokenDoor::Options options;
  options.instance = instance + "/door";
  options.local = local;
  options.fresh_key = [&process] {
    std::string key;
    while (key.size() < kTokenKeyBytes) key.push_back(static_cast<char>(process.random().Next()));
    return key;
  };
  return options;
}

struct MasterParts {
  MasterParts(master::MasterService::Options options, kv::KvStore& store, sim::SimProcess& process)
      : service(options, store, process) {}
  master::MasterService service;
  std::unique_ptr<TokenDoor> door;
};

struct TokenManagerParts {
  TokenManagerParts(const token_manager::TokenManagerOptions& options, kv::KvStore& store,
                    sim::SimProcess& process)
      : service(options, store, process),
        door(DoorOptions(process, options.instance, &service.grants()), store, process) {}
  token_manager::TokenManagerService service;
  TokenDoor door;
};

// A service that drains by its method Drain(done).
template <typename Service>
std::function<void(Closure)> DrainOf(Service& service) {
  return [&service](Closure done) { service.Drain(std::move(done)); };
}

}  // namespace

ServiceHost::Service MakeMaster(sim::SimProcess& process, kv::KvStore& store,
                                const ServiceIdentity& self, MasterApis* apis,
                                TokenEndpoint* door) {
  master::MasterService::Options options;
  options.instance = self.instance;
  auto parts = std::make_shared<MasterParts>(options, store, process);
  apis->schedules = &parts->service.schedules();
  apis->runs = &parts->service.runs();
  apis->events = &parts->service.events();
  apis->policies = &parts->service.policies();
  parts->service.Start();
  if (door != nullptr) {
    parts->door =
        std::make_unique<TokenDoor>(DoorOptions(process, self.instance, nullptr), store, process);
    parts->door->Start();
    door->service = parts->door.get();
  }
  return {parts, DrainOf(parts->service)};
}

ServiceHost::Service MakeTokenManager(sim::SimProcess& process, kv::KvStore& store,
                                      const ServiceIdentity& self, TokenEndpoint* door) {
  token_manager::TokenManagerOptions options;
  options.instance = self.instance;
  options.dead_instances = self.dead_instances;
  auto parts = std::make_shared<TokenManagerParts>(options, store, process);
  parts->service.Start();
  parts->door.Start();
  door->service = &parts->door;
  return {parts, [parts = parts.get()](Closure done) {
            parts->door.Drain([parts, done = std::make_shared<Closure>(std::move(done))] {
              parts->service.Drain([done] { (*done)(); });
            });
          }};
}

ServiceHost::Service MakeEmitter(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self) {
  emitter::EmitterOptions options;
  options.instance = self.instance;
  options.dead_instances = self.dead_instances;
  auto service = std::make_shared<emitter::EmitterService>(options, store, process);
  service->Start();
  return {service, DrainOf(*service)};
}

ServiceHost::Service MakeHandler(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self,
                                 std::unique_ptr<handler::DeliveryTransport> transport) {
  handler::HandlerOptions options;
  options.instance = self.instance;
  options.dead_instances = self.dead_instances;
  auto parts =
      std::make_shared<HandlerParts>(std::move(options), store, process, std::move(transport));
  parts->service.Start();
  return {parts, DrainOf(parts->service)};
}

}  // namespace escapement::simulation
