// An issuer of single sign-on: the real oidc-provider, with the pages for developers that it brings.
import { once } from "node:events";
import Provider from "oidc-provider";

/** Starts an issuer that knows whoever signs in as a member of the group `eng`, under their name's address. It is
 * of another site than the gateway. */
export async function startIssuer(gateway, port) {
  const url = `http://localhost:${port}`;
  const client = { client_id: "sluice", client_secret: "a-secret-of-the-client" };
  const provider = new Provider(url, {
    clients: [{
      ...client, redirect_uris: [`${gateway}/api/v1/sign-on/work/callback`],
      post_logout_redirect_uris: [`${gateway}/sign-in`],
    }],
    claims: { email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
    cookies: { keys: ["a key of the issuer's cookies"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@localhost`, email_verified: true, name: `${id} by oidc`, groups: ["eng"] }),
    }),
    pkce: { required: () => true },
  });
  const server = provider.listen(port, "127.0.0.1");
  await once(server, "listening");
  return { url, client, stop: () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }) };
}
