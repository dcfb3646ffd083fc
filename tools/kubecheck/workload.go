package main

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// port returns the number of a pod's port, given by name or number.
func port(pod corev1.PodTemplateSpec, p intstr.IntOrString) (int, bool) {
	for _, c := range pod.Spec.Containers {
		for _, q := range c.Ports {
			if q.Name == p.StrVal || p.StrVal == "" && q.ContainerPort == p.IntVal {
				return int(q.ContainerPort), true
			}
		}
	}
	return 0, false
}

// workload checks one workload.
func (c *checker) workload(w workload) {
	name := w.kind + " " + w.name
	c.selects(name, w.selector, []labels.Set{w.pod.Labels})
	if _, ok := c.services[w.service]; w.service != "" && !ok {
		c.say("%s: there is no service %q", name, w.service)
	}
	spec := w.pod.Spec
	if !slices.Contains(c.accounts, spec.ServiceAccountName) {
		c.say("%s: there is no service account %q", name, spec.ServiceAccountName)
	}
	for _, s := range spec.TopologySpreadConstraints {
		c.selects(name+"'s spread", s.LabelSelector, []labels.Set{w.pod.Labels})
	}
	known := map[string]bool{}
	for _, v := range spec.Volumes {
		known[v.Name] = true
		c.source(name, v)
	}
	for _, v := range w.claims {
		known[v.Name] = true
	}
	used := map[string]bool{}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, m := range container.VolumeMounts {
			used[m.Name] = true
			if !known[m.Name] {
				c.say("%s: there is no volume %q", name, m.Name)
			}
		}
		c.variables(name, container)
		if container.Resources.Requests.Memory().IsZero() ||
			container.Resources.Limits.Memory().IsZero() {
			c.say("%s: %s has no memory request or limit", name, container.Name)
		}
		c.disk(name, spec, container)
	}
	for v := range known {
		if !used[v] {
			c.say("%s: nothing mounts the volume %q", name, v)
		}
	}
	for _, container := range spec.Containers {
		for _, p := range []*corev1.Probe{
			container.StartupProbe, container.LivenessProbe,
			container.ReadinessProbe,
		} {
			c.probe(name, w.pod, p)
		}
	}
}

// disk checks that the use of the machine's disk by a container has a request, and a limit that no
// volume can exceed alone: a pod over its limit ends at once.
func (c *checker) disk(name string, spec corev1.PodSpec, container corev1.Container) {
	r := container.Resources
	limit := r.Limits.StorageEphemeral()
	if r.Requests.StorageEphemeral().IsZero() || limit.IsZero() {
		c.say("%s: %s has no request or limit for ephemeral-storage", name, container.Name)
	}
	for _, v := range spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.Medium == corev1.StorageMediumMemory ||
			!slices.ContainsFunc(container.VolumeMounts,
				func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			continue
		}
		if v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Cmp(*limit) >= 0 {
			c.say("%s: the volume %q may fill the disk, or may exceed the limit of %s", name,
				v.Name, container.Name)
		}
	}
}

// source checks that the source of a volume exists.
func (c *checker) source(name string, v corev1.Volume) {
	has := func(what string, there bool, items []corev1.KeyToPath, key func(string) bool) {
		if !there {
			c.say("%s: there is no %s for the volume %q", name, what, v.Name)
			return
		}
		for _, i := range items {
			if !key(i.Key) {
				c.say("%s: the %s of the volume %q has no %q", name, what, v.Name, i.Key)
			}
		}
	}
	switch {
	case v.ConfigMap != nil:
		m, ok := c.configs[v.ConfigMap.Name]
		has("config map", ok, v.ConfigMap.Items,
			func(k string) bool { _, ok := m.Data[k]; return ok })
	case v.Secret != nil:
		s, ok := c.secrets[v.Secret.SecretName]
		has("secret", ok, v.Secret.Items, func(k string) bool { _, ok := s.Data[k]; return ok })
		if v.Secret.DefaultMode == nil || *v.Secret.DefaultMode&0o037 != 0 {
			c.say("%s: others may read the secret of the volume %q", name, v.Name)
		}
	case v.PersistentVolumeClaim != nil:
		has("claim", slices.Contains(c.claims, v.PersistentVolumeClaim.ClaimName), nil, nil)
	}
}

// variables checks that each $(NAME) refers to a variable that is defined before it.
func (c *checker) variables(name string, container corev1.Container) {
	known := map[string]bool{}
	look := func(text string) {
		for {
			_, rest, found := strings.Cut(text, "$(")
			if !found {
				return
			}
			variable, after, _ := strings.Cut(rest, ")")
			if !known[variable] {
				c.say("%s: %s has no variable %q there", name, container.Name, variable)
			}
			text = after
		}
	}
	for _, e := range container.Env {
		look(e.Value)
		known[e.Name] = true
	}
	for _, a := range slices.Concat(container.Command, container.Args) {
		look(a)
	}
}

func (c *checker) probe(name string, pod corev1.PodTemplateSpec, p *corev1.Probe) {
	switch {
	case p == nil:
		c.say("%s lacks a probe", name)
	case p.HTTPGet != nil:
		if _, ok := port(pod, p.HTTPGet.Port); !ok || len(p.HTTPGet.HTTPHeaders) == 0 {
			c.say("a probe of %s names no port, or no Host that the gateway answers to", name)
		}
	case p.TCPSocket != nil:
		if _, ok := port(pod, p.TCPSocket.Port); !ok {
			c.say("a probe of %s names no port", name)
		}
	case p.Exec == nil || p.Exec.Command[0] != "/usr/bin/sandgate":
		c.say("a probe of %s runs a program that the image does not have", name)
	}
}
