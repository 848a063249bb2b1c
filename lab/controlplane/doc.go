// Package controlplane starts a real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, KWOK and, when asked for, the real Karpenter with its KWOK provider. Each is a child process of the
// segue-lab binary. It is what every test of the project uses instead of downloaded test binaries.
//
// It links none of these components itself, so tests that use it compile quickly and run under the race detector without
// slowing the control plane down. It must never import k8s.io/kubernetes, etcd, KWOK or Karpenter, and it listens on
// loopback only. (Karpenter opens its metrics and health ports on all interfaces; it has no setting for that.)
//
// Nothing outlives a lab: Stop ends the children in reverse order and removes the state directory, and when the process
// that started the lab ends in any other way, the children notice (package lifeline) and the last one removes it.
package controlplane
