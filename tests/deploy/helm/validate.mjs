// Judges manifests by Kubernetes' OpenAPI, strictly: wrong types, missing fields and unknown fields are errors.
//
// stdin: a JSON list of objects. stdout: a JSON list of sentences, one for each error. Kinds of other people's operators, which
// only extraObjects have, are not judged.
//
// The validators are those that kubernetes-models makes from the OpenAPI documents. They skip unknown fields, so each object
// is given to them behind a proxy that notes which of its fields they ask for: a field that nobody asks for is unknown.
import {readFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const packages = process.argv[2];  // the folder node_modules

const CORE = 'kubernetes-models/_schemas/IoK8sApi';
const schemas = {
  'v1 ConfigMap': `${CORE}CoreV1ConfigMap`,
  'v1 PersistentVolumeClaim': `${CORE}CoreV1PersistentVolumeClaim`,
  'v1 Pod': `${CORE}CoreV1Pod`,
  'v1 Service': `${CORE}CoreV1Service`,
  'v1 ServiceAccount': `${CORE}CoreV1ServiceAccount`,
  'apps/v1 Deployment': `${CORE}AppsV1Deployment`,
  'apps/v1 StatefulSet': `${CORE}AppsV1StatefulSet`,
  'autoscaling/v2 HorizontalPodAutoscaler': `${CORE}AutoscalingV2HorizontalPodAutoscaler`,
  'batch/v1 CronJob': `${CORE}BatchV1CronJob`,
  'batch/v1 Job': `${CORE}BatchV1Job`,
  'networking.k8s.io/v1 Ingress': `${CORE}NetworkingV1Ingress`,
  'networking.k8s.io/v1 NetworkPolicy': `${CORE}NetworkingV1NetworkPolicy`,
  'policy/v1 PodDisruptionBudget': `${CORE}PolicyV1PodDisruptionBudget`,
  'cert-manager.io/v1 Issuer':
      '@kubernetes-models/cert-manager/_schemas/ComGithubCertManagerCertManagerPkgApisCertmanagerV1Issuer',
  'cert-manager.io/v1 Certificate':
      '@kubernetes-models/cert-manager/_schemas/ComGithubCertManagerCertManagerPkgApisCertmanagerV1Certificate',
  'gateway.networking.k8s.io/v1 HTTPRoute':
      '@kubernetes-models/gateway-api/_schemas/IoK8sSigsGatewayApiApisV1HTTPRoute',
  'gateway.networking.k8s.io/v1 GRPCRoute':
      '@kubernetes-models/gateway-api/_schemas/IoK8sSigsGatewayApiApisV1GRPCRoute',
  'monitoring.coreos.com/v1 PrometheusRule':
      '@kubernetes-models/prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1PrometheusRule',
  'monitoring.coreos.com/v1 ServiceMonitor':
      '@kubernetes-models/prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1ServiceMonitor',
};

const FOREIGN = ['keda.sh/v1alpha1 ScaledObject', 'security.istio.io/v1 PeerAuthentication'];

// A proxy of `value`, and of all that it holds, which adds the paths of fields that are asked for to `asked`.
function watched(value, path, asked) {
  if (value === null || typeof value !== 'object') return value;
  const inner = Array.isArray(value) ? [] : {};
  for (const [name, member] of Object.entries(value)) inner[name] = watched(member, `${path}/${name}`, asked);
  return new Proxy(inner, {
    get(target, name) {
      if (typeof name === 'string') asked.add(`${path}/${name}`);
      return target[name];
    },
  });
}

function* pathsOf(value, path) {
  if (value === null || typeof value !== 'object') return;
  for (const [name, member] of Object.entries(value)) {
    yield `${path}/${name}`;
    yield* pathsOf(member, `${path}/${name}`);
  }
}

const errors = [];
for (const object of JSON.parse(readFileSync(0, 'utf8'))) {
  const kind = `${object.apiVersion} ${object.kind}`;
  const name = `${object.kind} ${object.metadata?.name}`;
  if (FOREIGN.includes(kind)) continue;
  if (!(kind in schemas)) {
    errors.push(`${name}: no schema is known for ${kind}`);
    continue;
  }
  const {validate} = await import(pathToFileURL(`${packages}/${schemas[kind]}.js`));
  const asked = new Set();
  if (!validate(watched(object, '', asked))) {
    for (const error of validate.errors ?? []) errors.push(`${name}: ${error.instancePath} ${error.message ?? error.keyword}`);
  }
  // An unknown part is named once, by its top.
  const unknown = [...pathsOf(object, '')].filter((path) => !asked.has(path));
  for (const path of unknown) {
    if (!unknown.includes(path.replace(/\/[^/]*$/, ''))) errors.push(`${name}: ${path} is not a field`);
  }
}
process.stdout.write(JSON.stringify(errors));
