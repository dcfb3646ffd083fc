// Command kubecheck reads a Kustomize folder as Kubernetes would: each object
// strictly into its type of k8s.io/api, so that a field that does not exist is
// an error, and looks whether what refers to something finds it.
//
//	go -C tools run ./kubecheck ../deploy/kubernetes
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kubecheck DIR")
		os.Exit(2)
	}
	c := &checker{configs: map[string]bool{}, services: map[string]corev1.Service{}}
	if err := c.read(os.Args[1]); err != nil {
		c.say("%v", err)
	}
	c.refer()
	if c.wrong > 0 {
		os.Exit(1)
	}
	fmt.Printf("kubecheck: %d objects\n", c.objects)
}

// kustomization is what we use of Kustomize.
type kustomization struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string   `json:"namespace"`
	Resources       []string `json:"resources"`
}

type checker struct {
	objects, wrong int
	namespace      string
	namespaces     []string
	configs        map[string]bool
	accounts       []string
	services       map[string]corev1.Service
	sets           []appsv1.StatefulSet
	ingresses      []networkingv1.Ingress
	policies       []networkingv1.NetworkPolicy
	budgets        []policyv1.PodDisruptionBudget
}

func (c *checker) say(format string, args ...any) {
	c.wrong++
	fmt.Fprintf(os.Stderr, "kubecheck: "+format+"\n", args...)
}

func (c *checker) read(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		return err
	}
	var k kustomization
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		return err
	}
	c.namespace = k.Namespace
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if name := filepath.Base(f); name != "kustomization.yaml" && !slices.Contains(k.Resources, name) {
			c.say("%s is no resource of the kustomization", name)
		}
	}
	for _, r := range k.Resources {
		text, err := os.ReadFile(filepath.Join(dir, r))
		if err != nil {
			return err
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			if err := c.object(doc); err != nil {
				c.say("%s: %v", r, err)
			}
		}
	}
	return nil
}

func strict[T any](doc []byte) (T, error) {
	var v T
	return v, yaml.UnmarshalStrict(doc, &v)
}

func (c *checker) object(doc []byte) error {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &is); err != nil {
		return err
	}
	c.objects++
	switch is.APIVersion + " " + is.Kind {
	case "v1 Namespace":
		v, err := strict[corev1.Namespace](doc)
		c.namespaces = append(c.namespaces, v.Name)
		return err
	case "v1 ConfigMap":
		v, err := strict[corev1.ConfigMap](doc)
		c.configs[v.Name] = true
		return err
	case "v1 ServiceAccount":
		v, err := strict[corev1.ServiceAccount](doc)
		c.accounts = append(c.accounts, v.Name)
		return err
	case "v1 Service":
		v, err := strict[corev1.Service](doc)
		c.services[v.Name] = v
		return err
	case "apps/v1 StatefulSet":
		v, err := strict[appsv1.StatefulSet](doc)
		c.sets = append(c.sets, v)
		return err
	case "networking.k8s.io/v1 Ingress":
		v, err := strict[networkingv1.Ingress](doc)
		c.ingresses = append(c.ingresses, v)
		return err
	case "networking.k8s.io/v1 NetworkPolicy":
		v, err := strict[networkingv1.NetworkPolicy](doc)
		c.policies = append(c.policies, v)
		return err
	case "policy/v1 PodDisruptionBudget":
		v, err := strict[policyv1.PodDisruptionBudget](doc)
		c.budgets = append(c.budgets, v)
		return err
	}
	return fmt.Errorf("%s %s is no kind that is known here", is.APIVersion, is.Kind)
}

// refer looks whether what is named is there.
func (c *checker) refer() {
	if !slices.Contains(c.namespaces, c.namespace) {
		c.say("there is no namespace %q", c.namespace)
	}
	var pods []labels.Set
	ports := map[string]bool{}
	for _, s := range c.sets {
		pod := s.Spec.Template
		pods = append(pods, pod.Labels)
		c.selects("StatefulSet "+s.Name, s.Spec.Selector, []labels.Set{pod.Labels})
		if _, ok := c.services[s.Spec.ServiceName]; !ok {
			c.say("there is no service %q", s.Spec.ServiceName)
		}
		if !slices.Contains(c.accounts, pod.Spec.ServiceAccountName) {
			c.say("there is no service account %q", pod.Spec.ServiceAccountName)
		}
		c.volumes(s)
		for _, container := range pod.Spec.Containers {
			for _, p := range container.Ports {
				ports[p.Name] = true
			}
			for _, p := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
				if p == nil || p.HTTPGet == nil || !ports[p.HTTPGet.Port.StrVal] || len(p.HTTPGet.HTTPHeaders) == 0 {
					c.say("a probe of %s is missing, or names no port, or no Host that the gateway answers to", container.Name)
				}
			}
		}
	}
	for _, s := range c.services {
		c.selects("Service "+s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pods)
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] {
				c.say("service %s: no container has the port %q", s.Name, p.TargetPort.StrVal)
			}
		}
	}
	for _, p := range c.policies {
		c.selects("NetworkPolicy "+p.Name, &p.Spec.PodSelector, pods)
	}
	for _, b := range c.budgets {
		c.selects("PodDisruptionBudget "+b.Name, b.Spec.Selector, pods)
	}
	for _, i := range c.ingresses {
		for _, r := range i.Spec.Rules {
			for _, p := range r.HTTP.Paths {
				s, ok := c.services[p.Backend.Service.Name]
				if !ok || !slices.ContainsFunc(s.Spec.Ports, func(q corev1.ServicePort) bool { return q.Name == p.Backend.Service.Port.Name }) {
					c.say("ingress %s: there is no service %s with port %s", i.Name, p.Backend.Service.Name, p.Backend.Service.Port.Name)
				}
			}
		}
	}
}

func (c *checker) selects(what string, s *metav1.LabelSelector, pods []labels.Set) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || selector.Empty() || !slices.ContainsFunc(pods, func(l labels.Set) bool { return selector.Matches(l) }) {
		c.say("%s selects no pod (%v)", what, err)
	}
}

// volumes looks whether each mount has its volume, and each volume its source.
func (c *checker) volumes(s appsv1.StatefulSet) {
	known := map[string]bool{}
	for _, v := range s.Spec.Template.Spec.Volumes {
		known[v.Name] = true
		if v.ConfigMap != nil && !c.configs[v.ConfigMap.Name] {
			c.say("there is no config map %q", v.ConfigMap.Name)
		}
	}
	for _, v := range s.Spec.VolumeClaimTemplates {
		known[v.Name] = true
	}
	for _, container := range s.Spec.Template.Spec.Containers {
		for _, m := range container.VolumeMounts {
			if !known[m.Name] {
				c.say("there is no volume %q", m.Name)
			}
		}
	}
}
