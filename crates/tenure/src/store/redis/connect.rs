//! Connecting: to which address, as which user, and how the connection is prepared.

use std::time::Duration;

use redis::aio::{AsyncPushSender, ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult,
    ServerErrorKind, Value, io::tcp::TcpSettings,
};
use tokio::time::{Instant, sleep};

use crate::store::redis::fault;
use crate::store::redis::sentinel::{self, Master};
use crate::store::redis::url::{Access, Host, Servers, Settings};

/// A connection to send requests on.
#[derive(Clone)]
pub(crate) enum Connection {
    /// To one server.
    Server(MultiplexedConnection),
    /// To all masters of a cluster.
    Cluster(ClusterConnection),
}

/// The clocks of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// When the server started, at the latest.
    pub(crate) started: Instant,
    /// Its time, and when that was received.
    pub(crate) clock_us: u64,
    pub(crate) heard: Instant,
}

/// What to do on each new connection before it is used.
#[derive(Debug, Clone)]
pub(crate) enum Greeting {
    /// Subscribe to this channel.
    Subscribe(String),
    /// Subscribe to this channel, and ask for the server's uptime and clock.
    Join(String),
    /// Enable client-side caching, so that the server reports changes of keys that were read.
    Track,
    /// Nothing.
    Nothing,
}

/// Connects and prepares the connection; also returns the server's clocks if the greeting asks for them.
///
/// If sentinels named a master, it connects to that one.
pub(crate) async fn connect(
    settings: &Settings,
    master: Option<&Master>,
    greeting: &Greeting,
    listener: impl AsyncPushSender,
) -> RedisResult<(Connection, Option<Times>)> {
    let address = match (&settings.servers, master) {
        (Servers::One(host), _) => settings.address(host),
        (Servers::Socket(path), _) => ConnectionAddr::Unix(path.clone()),
        (Servers::Sentinel { .. }, Some(master)) => settings.address(&master.host),
        (Servers::Sentinel { .. }, None) => {
            return Err((ErrorKind::Client, "no sentinel was asked").into());
        }
        (Servers::Cluster(nodes), _) => {
            let connection = connect_cluster(settings, nodes, greeting, listener).await?;
            return Ok((connection, None));
        }
    };
    let mut connection = settings
        .connect(address, &settings.access, listener)
        .await?;
    if master.is_some() {
        sentinel::expect_master(&mut connection).await?;
    }
    let mut times = None;
    match greeting {
        Greeting::Subscribe(channel) => connection.subscribe(channel).await?,
        Greeting::Join(channel) => {
            connection.subscribe(channel).await?;
            times = Some(ask_times(&mut connection).await?);
        }
        Greeting::Track => {
            let mut track = redis::cmd("CLIENT");
            track.arg(&["TRACKING", "ON", "OPTIN", "NOLOOP"]);
            track.exec_async(&mut connection).await?;
        }
        Greeting::Nothing => {}
    }
    Ok((Connection::Server(connection), times))
}

async fn connect_cluster(
    settings: &Settings,
    nodes: &[Host],
    greeting: &Greeting,
    listener: impl AsyncPushSender,
) -> RedisResult<Connection> {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|node| settings.info(settings.address(node), &settings.access))
        .collect::<RedisResult<_>>()?;
    let builder = ClusterClientBuilder::new(nodes)
        .use_protocol(ProtocolVersion::RESP3)
        .connection_timeout(settings.connect_timeout)
        .response_timeout(settings.timeout)
        .overall_response_timeout(None)
        // A retry would also repeat requests that a node may have executed, and report the second reply.
        .retries(0)
        .tcp_settings(TcpSettings::default().set_nodelay(true))
        .push_sender(listener);
    #[cfg(feature = "redis-tls")]
    let builder = match &settings.tls {
        Some(tls) => builder
            .tls(redis::cluster::TlsMode::Secure)
            .certs(tls.certificates()?),
        None => builder,
    };
    let mut connection = builder.build()?.get_async_connection().await?;
    if let Greeting::Subscribe(channel) | Greeting::Join(channel) = greeting {
        connection.subscribe(channel).await?;
    }
    Ok(Connection::Cluster(connection))
}

impl Connection {
    pub(crate) async fn send(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Server(connection) => connection.send_packed_command(cmd).await,
            Self::Cluster(connection) => {
                let (mut refusals, mut ask) = (0, None);
                loop {
                    let answer = match ask {
                        None => connection.req_packed_command(cmd).await,
                        Some(node) => send_asking(connection, cmd, node).await,
                    };
                    match answer {
                        Err(error) if may_repeat(&error, &mut refusals).await => {
                            ask = node_to_ask(&error);
                        }
                        answer => break answer,
                    }
                }
            }
        }?
        .extract_error()
    }

    pub(crate) async fn send_all(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        match self {
            Self::Server(connection) => pipeline.query_async(connection).await,
            Self::Cluster(connection) => {
                let mut refusals = 0;
                loop {
                    match pipeline.query_async(connection).await {
                        Err(error) if may_repeat(&error, &mut refusals).await => {}
                        answer => break answer,
                    }
                }
            }
        }
    }
}

/// Decides whether to send a request again that a cluster refused, and pauses first; counts the
/// refusals.
///
/// A request is sent again only if it was not executed.
async fn may_repeat(error: &RedisError, refusals: &mut u32) -> bool {
    if !fault::is_refused(error) || *refusals == MOST_REFUSALS {
        return false;
    }
    // During the pause, the client learns where the slot is.
    sleep(SHORTEST_PAUSE * 2_u32.pow(*refusals)).await;
    *refusals += 1;
    true
}

/// Returns the node of an `ASK` redirect: it has the key, although it does not own the slot yet.
fn node_to_ask(error: &RedisError) -> Option<SingleNodeRoutingInfo> {
    if error.kind() != ErrorKind::Server(ServerErrorKind::Ask) {
        return None;
    }
    let (node, _) = error.redirect_node()?;
    let (host, port) = node.rsplit_once(':')?;
    Some(SingleNodeRoutingInfo::ByAddress {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

/// Sends a command to a node that the slot is moving to.
async fn send_asking(
    cluster: &mut ClusterConnection,
    cmd: &Cmd,
    node: SingleNodeRoutingInfo,
) -> RedisResult<Value> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("ASKING");
    pipeline.add_command(cmd.clone());
    let answers = cluster.route_pipeline(pipeline, 1, 1, node).await?;
    answers
        .into_iter()
        .next()
        .ok_or_else(|| (ErrorKind::UnexpectedReturnType, "no answer").into())
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Cluster(_) => "Cluster",
        })
    }
}

impl Settings {
    /// Returns the address of a server or a sentinel.
    pub(crate) fn address(&self, host: &Host) -> ConnectionAddr {
        let Host { name, port } = host.clone();
        if self.tls.is_some() {
            ConnectionAddr::TcpTls {
                host: name,
                port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(name, port)
        }
    }

    fn info(&self, address: ConnectionAddr, access: &Access) -> RedisResult<ConnectionInfo> {
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_skip_set_lib_name()
            .set_db(access.database);
        if let Some(user) = &access.user {
            redis = redis.set_username(user);
        }
        if let Some(password) = &access.password {
            redis = redis.set_password(password);
        }
        Ok(address
            .into_connection_info()?
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
            .set_redis_settings(redis))
    }

    /// Connects to one server or sentinel, without a timeout.
    pub(crate) async fn connect(
        &self,
        address: ConnectionAddr,
        access: &Access,
        listener: impl AsyncPushSender,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1024)
            .set_push_sender(listener);
        let client = self.client(self.info(address, access)?)?;
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        // Without the feature, no URL asks for TLS: `url.rs` has rejected it.
        #[cfg(feature = "redis-tls")]
        if let Some(tls) = &self.tls {
            return Client::build_with_tls(info, tls.certificates()?);
        }
        Client::open(info)
    }
}

#[cfg(feature = "redis-tls")]
impl crate::store::redis::url::Tls {
    /// Reads the files that the URL names.
    fn certificates(&self) -> RedisResult<redis::TlsCertificates> {
        let read = |path: &std::path::PathBuf| {
            std::fs::read(path).map_err(|error| {
                let why = format!("{}: {error}", path.display());
                RedisError::from((ErrorKind::InvalidClientConfig, "cannot be read", why))
            })
        };
        let client_tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(redis::ClientTlsConfig {
                client_cert: read(certificate)?,
                client_key: read(key)?,
            }),
            (None, None) => None,
            _ => {
                let why = "a client certificate needs both cert= and key=";
                return Err((ErrorKind::InvalidClientConfig, why).into());
            }
        };
        Ok(redis::TlsCertificates {
            client_tls,
            root_cert: self.ca.as_ref().map(read).transpose()?,
        })
    }
}

/// Asks for the server's clocks.
async fn ask_times(connection: &mut MultiplexedConnection) -> RedisResult<Times> {
    let info: String = redis::cmd("INFO")
        .arg("server")
        .query_async(connection)
        .await?;
    // This is not the time when the request was sent: if the request was delayed, the server would seem
    // to have been up for longer, and its clock to be further ahead.
    let heard = Instant::now();
    let number = |field: &str| {
        let mut lines = info.lines();
        let text = lines.find_map(|line| line.strip_prefix(field))?;
        text.trim().parse::<u64>().ok()
    };
    // The uptime is rounded up: its first second may have been just a moment. A server that does not
    // report its uptime counts as just started.
    let uptime = number("uptime_in_seconds:").map_or(0, |seconds| seconds.saturating_sub(1));
    let started = heard.checked_sub(Duration::from_secs(uptime));
    Ok(Times {
        // The clock of this machine may not reach that far back.
        started: started.unwrap_or(heard),
        clock_us: number("server_time_usec:").unwrap_or(0),
        heard,
    })
}

/// The first pause after a node refuses a request, which doubles each time, and the number of pauses.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const MOST_REFUSALS: u32 = 7;
