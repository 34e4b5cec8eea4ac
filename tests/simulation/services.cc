#include "tests/simulation/services.h"

#include <utility>

#include "services/emitter/emitter_service.h"
#include "services/handler/handler_service.h"
#include "services/master/master_service.h"

namespace escapement::simulation {
namespace {

struct HandlerParts {
  HandlerParts(handler::HandlerOptions options, kv::KvStore& store, Runtime& runtime,
               std::unique_ptr<handler::DeliveryTransport> wire)
      : transport(std::move(wire)), service(std::move(options), store, runtime, *transport) {}
  std::unique_ptr<handler::DeliveryTransport> transport;
  handler::HandlerService service;
};

// A service that drains by Drain(done).
template <typename Service>
std::function<void(Closure)> DrainOf(Service& service) {
  return [&service](Closure done) { service.Drain(std::move(done)); };
}

}  // namespace

ServiceHost::Service MakeMaster(sim::SimProcess& process, kv::KvStore& store,
                                const std::string& instance, MasterApis* apis) {
  master::MasterService::Options options;
  options.instance = instance;
  auto service = std::make_shared<master::MasterService>(options, store, process);
  apis->schedules = &service->schedules();
  apis->events = &service->events();
  service->Start();
  return {service, DrainOf(*service)};
}

ServiceHost::Service MakeEmitter(sim::SimProcess& process, kv::KvStore& store,
                                 const std::string& instance) {
  emitter::EmitterService::Options options;
  options.instance = instance;
  auto service = std::make_shared<emitter::EmitterService>(options, store, process);
  service->Start();
  return {service, DrainOf(*service)};
}

ServiceHost::Service MakeHandler(sim::SimProcess& process, kv::KvStore& store,
                                 const std::string& instance,
                                 std::unique_ptr<handler::DeliveryTransport> transport) {
  handler::HandlerOptions options;
  options.instance = instance;
  auto parts =
      std::make_shared<HandlerParts>(std::move(options), store, process, std::move(transport));
  parts->service.Start();
  return {parts, DrainOf(parts->service)};
}

}  // namespace escapement::simulation
