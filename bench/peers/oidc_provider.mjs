// The peer: node oidc-provider set up to do what POST /auth does, client credentials in, ES256 JWT out.
// Everything that could be turned off to its advantage is off: no TLS, no stored tokens, one client in memory.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';

import Provider from 'oidc-provider';

const { PORT, CLIENT_ID, CLIENT_SECRET, RESOURCE } = process.env;
const issuer = `http://127.0.0.1:${PORT}`;

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const signingKey = { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256', kid: 'bench' };

// A JWT is only issued for a named resource; without one the access token would be opaque and unsigned.
const resource = {
  scope: 'groups:read groups:write',
  audience: RESOURCE,
  accessTokenTTL: 900,
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: 'ES256' } },
};

const provider = new Provider(issuer, {
  jwks: { keys: [signingKey] },
  clients: [
    {
      client_id: CLIENT_ID,
      client_secret: CLIENT_SECRET,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_post',
      id_token_signed_response_alg: 'ES256',
    },
  ],
  scopes: ['groups:read', 'groups:write'],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: { enabled: true, getResourceServerInfo: () => resource },
  },
});

createServer(provider.callback()).listen(Number(PORT), '127.0.0.1');
