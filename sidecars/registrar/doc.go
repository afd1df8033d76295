// Package registrar is the node-driver-registrar of one CSI driver on one node: it tells a kubelet that asks at its socket what
// the driver is called and where it serves, and keeps what it is told.
//
// Differs: upstream's asks the driver for its name, and ends when it is told that the kubelet will not have it.
//
// Upstream: node-driver-registrar 2.17.
package registrar
