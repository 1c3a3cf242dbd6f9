//! What agents write: events, annotations of pods, and reports about nodes.

use super::*;

impl Cluster {
    pub(super) fn write(&self, method: &Method, path: &str, body: &[u8]) -> Answer {
        let mut state = self.state();
        if state.busy > 0 {
            state.busy -= 1;
            let mut busy =
                answer(StatusCode::TOO_MANY_REQUESTS, &json!({"code": 429, "message": "busy"}));
            busy.headers_mut().insert("retry-after", "3".parse().expect("a header"));
            return busy;
        }
        let namespace = format!("/api/v1/namespaces/{}/", state.forbidden_namespace);
        if state.forbidden > 0 || path.starts_with(&namespace) {
            state.forbidden = state.forbidden.saturating_sub(1);
            let message = "RBAC: clusterrole.rbac.authorization.k8s.io \"numaloc-agent\" not found";
            return answer(StatusCode::FORBIDDEN, &json!({"code": 403, "message": message}));
        }
        let sent: Value = serde_json::from_slice(body).expect("JSON");
        if let Some(node) = path.strip_prefix(NODE_LOCALITIES) {
            if state.kinds.is_empty() {
                return undefined();
            }
            drop(state);
            self.put(NODE_LOCALITIES.trim_end_matches('/'), node, sent);
            return answer(StatusCode::OK, &json!({}));
        }
        if path.starts_with(LEASES) {
            drop(state);
            return self.write_lease(path, sent);
        }
        if is_policy_status(path) {
            state.status_writes += 1;
            drop(state);
            return self.write_policy_status(path, &sent);
        }
        let parts: Vec<&str> = path.trim_start_matches("/api/v1/namespaces/").split('/').collect();
        match (method, &parts[..]) {
            (&Method::POST, [namespace, "events"]) => {
                let name =
                    format!("{namespace}/{}", sent["metadata"]["name"].as_str().expect("text"));
                if state.events.contains_key(&name) {
                    return answer(
                        StatusCode::CONFLICT,
                        &json!({"code": 409, "message": "already exists"}),
                    );
                }
                state.events.insert(name, sent);
                answer(StatusCode::CREATED, &json!({}))
            }
            (&Method::PATCH, [namespace, "pods", name, "status"]) => {
                let name = format!("{namespace}/{name}");
                let key = ("/api/v1/pods".to_owned(), name.clone());
                let Some(mut pod) = state.objects.get(&key).cloned() else {
                    return answer(
                        StatusCode::NOT_FOUND,
                        &json!({"code": 404, "message": "not found"}),
                    );
                };
                drop(state);
                if sent["metadata"]["uid"] != pod["metadata"]["uid"] {
                    return answer(
                        StatusCode::UNPROCESSABLE_ENTITY,
                        &json!({"code": 422, "message": "metadata.uid: field is immutable"}),
                    );
                }
                for (key, value) in sent["metadata"]["annotations"].as_object().expect("an object")
                {
                    pod["metadata"]["annotations"][key] = value.clone();
                }
                self.pod(pod);
                answer(StatusCode::OK, &json!({}))
            }
            _ => panic!("no agent does {method} {path}"),
        }
    }

    fn write_lease(&self, path: &str, sent: Value) -> Answer {
        let name = path.strip_prefix(LEASES).unwrap_or_default().trim_matches('/');
        let name =
            if name.is_empty() { sent["metadata"]["name"].as_str().expect("text") } else { name };
        let key = (LEASES.to_owned(), name.to_owned());
        let before = self.state().objects.get(&key).cloned();
        let is_create = path == LEASES;
        let is_same = |before: &Value| {
            before["metadata"]["resourceVersion"] == sent["metadata"]["resourceVersion"]
        };
        if before.as_ref().map_or(!is_create, |before| is_create || !is_same(before)) {
            return answer(StatusCode::CONFLICT, &json!({"code": 409, "message": "conflict"}));
        }
        let mut lease = sent.clone();
        lease["metadata"]["name"] = name.into();
        self.put(LEASES, name, lease);
        answer(StatusCode::OK, &json!({}))
    }

    fn write_policy_status(&self, path: &str, sent: &Value) -> Answer {
        let parts: Vec<&str> = path.trim_end_matches("/status").split('/').collect();
        let [.., kind, name] = &parts[..] else { return undefined() };
        let namespace = if parts.len() > 6 { parts[5] } else { "" };
        let kind = format!("/apis/numaloc.io/v1alpha1/{kind}");
        let key = (kind.clone(), format!("{namespace}/{name}"));
        let Some(mut object) = self.state().objects.get(&key).cloned() else { return undefined() };
        if object["metadata"]["resourceVersion"] != sent["metadata"]["resourceVersion"] {
            return answer(StatusCode::CONFLICT, &json!({"code": 409, "message": "conflict"}));
        }
        object["status"] = sent["status"].clone();
        self.put(&kind, &key.1, object);
        answer(StatusCode::OK, &json!({}))
    }
}

pub(super) fn answer(status: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(BodyExt::boxed(Full::new(Bytes::from(body.to_string()))));
    *answer.status_mut() = status;
    answer
}

/// The answer for a kind that the cluster does not define.
pub(super) fn undefined() -> Answer {
    answer(StatusCode::NOT_FOUND, &json!({"code": 404, "message": "page not found"}))
}

/// Whether a path is that of the status of a policy.
pub(super) fn is_policy_status(path: &str) -> bool {
    path.starts_with("/apis/numaloc.io/") && path.ends_with("/status")
}

/// Whether a field selector takes an object. Pods without a node are those of each.
pub(super) fn is_selected(selector: &str, object: &Value) -> bool {
    let Some((field, value)) = selector.split_once("%3D") else { return true };
    let field = object.pointer(&format!("/{}", field.replace('.', "/")));
    field.is_none_or(|field| field == value)
}
