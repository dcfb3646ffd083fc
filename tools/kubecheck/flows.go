package main

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// peer is one end of a connection: a pod of the tree, a pod of another namespace, or an address
// elsewhere.
type peer struct {
	name      string
	pod       labels.Set
	namespace labels.Set // nil for the namespace of the tree
	address   netip.Addr
	ports     []corev1.ContainerPort
	own       bool
}

// strangers returns the peers outside the tree that the check tries to connect.
func strangers() []peer {
	space := func(name string) labels.Set { return labels.Set{"kubernetes.io/metadata.name": name} }
	at := func(number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{
			{ContainerPort: number},
		}
	}
	ip := netip.MustParseAddr
	return []peer{
		{
			name: "ingress-nginx", namespace: space("ingress-nginx"),
			pod: labels.Set{"app": "ingress"},
		},
		{name: "monitoring", namespace: space("monitoring"), pod: labels.Set{"app": "prometheus"}},
		{
			name: "neighbour", namespace: space("default"),
			pod: labels.Set{
				"app.kubernetes.io/name":      "sandgate",
				"app.kubernetes.io/component": "gateway",
			}, ports: at(80),
		},
		{
			name: "names", namespace: space("kube-system"), pod: labels.Set{"k8s-app": "kube-dns"},
			ports: []corev1.ContainerPort{{ContainerPort: 53, Protocol: corev1.ProtocolUDP}},
		},
		{name: "apiserver", address: ip("10.96.0.1"), ports: at(443)},
		{name: "metadata", address: ip("169.254.169.254"), ports: at(80)},
		{name: "internet", address: ip("93.184.215.14"), ports: at(443)},
		{name: "mail", address: ip("93.184.215.14"), ports: at(25)},
		{name: "internet6", address: ip("2606:2800:21f::1"), ports: at(443)},
		{name: "private6", address: ip("fd00:ec2::254"), ports: at(80)},
		{name: "bucket", address: ip("203.0.113.7"), ports: at(9000)},
		{name: "redis-elsewhere", address: ip("203.0.113.5"), ports: at(6379)},
	}
}

// flows lists the allowed connections. If a policy selects a pod for a direction, only connections
// that a policy allows pass in that direction.
func (c *checker) flows() []string {
	all := strangers()
	for _, w := range c.workloads {
		p := peer{name: w.name, pod: w.pod.Labels, own: true}
		for _, container := range w.pod.Spec.Containers {
			p.ports = append(p.ports, container.Ports...)
		}
		all = append(all, p)
	}
	var out []string
	for _, from := range all {
		for _, to := range all {
			if from.name == to.name || !from.own && !to.own {
				continue
			}
			for _, p := range to.ports {
				if c.leaves(from, to, p) && c.enters(from, to, p) {
					out = append(out, fmt.Sprintf("%s -> %s %d", from.name, to.name,
						p.ContainerPort))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

func (c *checker) leaves(from, to peer, p corev1.ContainerPort) bool {
	bound := false
	for _, policy := range c.policies {
		if !from.own || !matches(&policy.Spec.PodSelector, from.pod) ||
			!slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			continue
		}
		bound = true
		for _, rule := range policy.Spec.Egress {
			if among(rule.To, to) && open(rule.Ports, p) {
				return true
			}
		}
	}
	return !bound
}

func (c *checker) enters(from, to peer, p corev1.ContainerPort) bool {
	bound := false
	for _, policy := range c.policies {
		if !to.own || !matches(&policy.Spec.PodSelector, to.pod) ||
			!slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		bound = true
		for _, rule := range policy.Spec.Ingress {
			if among(rule.From, from) && open(rule.Ports, p) {
				return true
			}
		}
	}
	return !bound
}

func matches(s *metav1.LabelSelector, l labels.Set) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(l)
}

// among reports whether a rule includes the peer. A rule without peers includes all.
func among(peers []networkingv1.NetworkPolicyPeer, who peer) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers,
		func(n networkingv1.NetworkPolicyPeer) bool {
			if n.IPBlock != nil {
				within := func(cidr string) bool {
					p, err := netip.ParsePrefix(cidr)
					return err == nil && who.address.IsValid() && p.Contains(who.address)
				}
				return within(n.IPBlock.CIDR) && !slices.ContainsFunc(n.IPBlock.Except, within)
			}
			if who.address.IsValid() {
				return false
			}
			if n.NamespaceSelector == nil {
				return who.own && matches(n.PodSelector, who.pod)
			}
			return matches(n.NamespaceSelector, who.namespace) &&
				(n.PodSelector == nil || matches(n.PodSelector, who.pod))
		})
}

// open reports whether a rule includes the port. A rule without ports includes all.
func open(ports []networkingv1.NetworkPolicyPort, p corev1.ContainerPort) bool {
	protocol := func(q corev1.Protocol) corev1.Protocol {
		if q == "" {
			return corev1.ProtocolTCP
		}
		return q
	}
	return len(ports) == 0 || slices.ContainsFunc(ports,
		func(q networkingv1.NetworkPolicyPort) bool {
			asked := corev1.ProtocolTCP
			if q.Protocol != nil {
				asked = *q.Protocol
			}
			if asked != protocol(p.Protocol) {
				return false
			}
			return q.Port == nil || q.Port.Type == intstr.Int && q.Port.IntVal == p.ContainerPort ||
				q.Port.Type == intstr.String && q.Port.StrVal == p.Name
		})
}
