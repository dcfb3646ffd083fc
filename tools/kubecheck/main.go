// Command kubecheck renders a Kustomize folder and parses it as Kubernetes does: each object
// strictly into its type of k8s.io/api, so that an unknown field is an error. It checks that
// references have a target, and prints the connections that the network policies allow. Further
// files contain objects that the folder refers to but does not contain, such as secrets.
//
//	go -C tools run ./kubecheck ../deploy/kubernetes/cluster [FILE...]
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubecheck DIR [FILE...]")
		os.Exit(2)
	}
	c := &checker{
		configs: map[string]corev1.ConfigMap{}, secrets: map[string]corev1.Secret{},
		services: map[string]corev1.Service{}, priorities: map[string]schedulingv1.PriorityClass{},
	}
	if err := c.read(os.Args[1], os.Args[2:]); err != nil {
		c.say("%v", err)
	}
	c.refer()
	c.scaling()
	if c.wrong > 0 {
		os.Exit(1)
	}
	for _, flow := range c.flows() {
		fmt.Println(flow)
	}
}

type checker struct {
	wrong      int
	spaces     []string
	namespaces []string
	configs    map[string]corev1.ConfigMap
	secrets    map[string]corev1.Secret
	claims     []string
	accounts   []string
	services   map[string]corev1.Service
	workloads  []workload
	ingresses  []networkingv1.Ingress
	policies   []networkingv1.NetworkPolicy
	budgets    []policyv1.PodDisruptionBudget
	priorities map[string]schedulingv1.PriorityClass
	scalers    []scaler
}

// workload is the common part of the kinds that create pods.
type workload struct {
	kind, name string
	selector   *metav1.LabelSelector
	pod        corev1.PodTemplateSpec
	claims     []corev1.PersistentVolumeClaim
	replicas   bool
	service    string // set for a StatefulSet
	count      *int32 // how many pods there are; nil if the manifest does not say it
}

func (c *checker) say(format string, args ...any) {
	c.wrong++
	fmt.Fprintf(os.Stderr, "kubecheck: "+format+"\n", args...)
}

// read renders the folder as kubectl does, and reads the files unchanged.
func (c *checker) read(dir string, files []string) error {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return err
	}
	for _, r := range all.Resources() {
		text, err := r.AsYAML()
		if err == nil {
			err = c.object(text)
		}
		if err != nil {
			c.say("%s: %v", r.CurId(), err)
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		for _, doc := range bytes.Split(text, []byte("---\n")) {
			if len(bytes.TrimSpace(doc)) == 0 {
				continue
			}
			if err := c.object(doc); err != nil {
				c.say("%s: %v", f, err)
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
	var is struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal(doc, &is); err != nil {
		return err
	}
	if is.Kind != "Namespace" && is.Kind != "PriorityClass" && !slices.Contains(c.spaces, is.Metadata.Namespace) {
		c.spaces = append(c.spaces, is.Metadata.Namespace)
	}
	switch is.APIVersion + " " + is.Kind {
	case "v1 Namespace":
		v, err := strict[corev1.Namespace](doc)
		c.namespaces = append(c.namespaces, v.Name)
		return err
	case "v1 ConfigMap":
		v, err := strict[corev1.ConfigMap](doc)
		c.configs[v.Name] = v
		return err
	case "v1 Secret":
		v, err := strict[corev1.Secret](doc)
		c.secrets[v.Name] = v
		return err
	case "v1 PersistentVolumeClaim":
		v, err := strict[corev1.PersistentVolumeClaim](doc)
		c.claims = append(c.claims, v.Name)
		return err
	case "v1 ServiceAccount":
		v, err := strict[corev1.ServiceAccount](doc)
		c.accounts = append(c.accounts, v.Name)
		return err
	case "v1 Service":
		v, err := strict[corev1.Service](doc)
		c.services[v.Name] = v
		return err
	case "apps/v1 Deployment":
		v, err := strict[appsv1.Deployment](doc)
		c.workloads = append(c.workloads, workload{
			is.Kind, v.Name, v.Spec.Selector,
			v.Spec.Template, nil, true, "", v.Spec.Replicas,
		})
		return err
	case "apps/v1 DaemonSet":
		v, err := strict[appsv1.DaemonSet](doc)
		c.workloads = append(c.workloads, workload{
			is.Kind, v.Name, v.Spec.Selector,
			v.Spec.Template, nil, false, "", nil,
		})
		return err
	case "apps/v1 StatefulSet":
		v, err := strict[appsv1.StatefulSet](doc)
		c.workloads = append(c.workloads, workload{
			is.Kind, v.Name, v.Spec.Selector,
			v.Spec.Template, v.Spec.VolumeClaimTemplates, true, v.Spec.ServiceName, v.Spec.Replicas,
		})
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
	return c.schedulingObject(is.APIVersion+" "+is.Kind, doc)
}

// refer checks that referenced objects exist.
func (c *checker) refer() {
	if !slices.Equal(c.spaces, c.namespaces) {
		c.say("objects are in the namespaces %q, but the created namespaces are %q", c.spaces,
			c.namespaces)
	}
	var pods, scaled []labels.Set
	for _, w := range c.workloads {
		pods = append(pods, w.pod.Labels)
		if w.replicas {
			scaled = append(scaled, w.pod.Labels)
		}
		c.workload(w)
	}
	for _, s := range c.services {
		selected := c.selects("Service "+s.Name,
			&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pods)
		for _, p := range s.Spec.Ports {
			for _, w := range selected {
				if _, ok := port(c.workloads[w].pod, p.TargetPort); !ok {
					c.say("Service %s: %s has no port %q", s.Name, c.workloads[w].name,
						p.TargetPort.String())
				}
			}
		}
	}
	for _, p := range c.policies {
		if len(p.Spec.Ingress)+len(p.Spec.Egress) == 0 && len(p.Spec.PodSelector.MatchLabels)+
			len(p.Spec.PodSelector.MatchExpressions) == 0 {
			continue // it denies all connections
		}
		selected := c.selects("NetworkPolicy "+p.Name, &p.Spec.PodSelector, pods)
		for _, rule := range p.Spec.Ingress {
			for _, q := range rule.Ports {
				for _, w := range selected {
					if _, ok := port(c.workloads[w].pod, *q.Port); !ok {
						c.say("NetworkPolicy %s: %s has no port %q", p.Name, c.workloads[w].name,
							q.Port)
					}
				}
			}
			for _, from := range rule.From {
				if from.NamespaceSelector == nil && from.PodSelector != nil {
					c.selects("NetworkPolicy "+p.Name, from.PodSelector, pods)
				}
			}
		}
		for _, rule := range p.Spec.Egress {
			for _, to := range rule.To {
				if to.NamespaceSelector == nil && to.PodSelector != nil {
					for _, w := range c.selects("NetworkPolicy "+p.Name, to.PodSelector, pods) {
						for _, q := range rule.Ports {
							if _, ok := port(c.workloads[w].pod, *q.Port); !ok {
								c.say("NetworkPolicy %s: %s has no port %q", p.Name,
									c.workloads[w].name, q.Port)
							}
						}
					}
				}
			}
		}
	}
	for _, b := range c.budgets {
		c.selects("PodDisruptionBudget "+b.Name, b.Spec.Selector, scaled)
	}
	for _, i := range c.ingresses {
		for _, r := range i.Spec.Rules {
			for _, p := range r.HTTP.Paths {
				s, ok := c.services[p.Backend.Service.Name]
				if !ok || !slices.ContainsFunc(s.Spec.Ports,
					func(q corev1.ServicePort) bool {
						return q.Name == p.Backend.Service.Port.Name
					}) {
					c.say("Ingress %s: there is no service %s with port %s", i.Name,
						p.Backend.Service.Name, p.Backend.Service.Port.Name)
				}
			}
		}
	}
}

// selects returns the indices of the pods that the selector selects. There must be at least one.
func (c *checker) selects(what string, s *metav1.LabelSelector, pods []labels.Set) []int {
	selector, err := metav1.LabelSelectorAsSelector(s)
	var all []int
	if err == nil && !selector.Empty() {
		for i, l := range pods {
			if selector.Matches(l) {
				all = append(all, i)
			}
		}
	}
	if len(all) == 0 {
		c.say("%s selects no pod (%v)", what, err)
	}
	return all
}
